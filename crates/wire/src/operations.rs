//! The one list of operations.
//!
//! A line `file::Operation` below `resource` stands for two files: `wire/src/<resource>/<file>.rs` has the request and its
//! answer, `server/src/operations/<resource>/<file>.rs` has what the server does. Both crates take their modules from this
//! list, and REST, OpenAPI, MCP, `drawloom call` and the tests take the operations, in this order.

/// Calls the macro `$each` with every operation, by resource.
#[macro_export]
macro_rules! operations {
    ($each:ident) => {
        $each! {
            runs {
                spawn_run::SpawnRun,
                get_run::GetRun,
                list_runs::ListRuns,
                follow_run::FollowRun,
                cancel_run::CancelRun,
                read_artifact::ReadArtifact,
                retry_run::RetryRun,
                replay_run::ReplayRun,
                get_costs::GetCosts,
                delete_run::DeleteRun,
                prune_runs::PruneRuns,
            }
            artifacts {
                list_artifacts::ListArtifacts,
                get_artifact::GetArtifact,
            }
            batches {
                spawn_runs::SpawnRuns,
                get_batch::GetBatch,
                cancel_batch::CancelBatch,
                delete_batch::DeleteBatch,
            }
            memory {
                get_memory::GetMemory,
                list_memory::ListMemory,
                search_memory::SearchMemory,
                set_memory::SetMemory,
                change_memory::ChangeMemory,
                delete_memory::DeleteMemory,
                import_memory::ImportMemory,
                watch_memory::WatchMemory,
            }
            channels {
                publish_channel::PublishChannel,
                subscribe_channel::SubscribeChannel,
                peek_channel::PeekChannel,
                ack_channel::AckChannel,
                nak_channel::NakChannel,
                extend_channel::ExtendChannel,
                await_channels::AwaitChannels,
                broadcast_channels::BroadcastChannels,
                list_channels::ListChannels,
                follow_channel::FollowChannel,
                channeldef::ChannelDef,
                create_channel::CreateChannel,
                update_channel::UpdateChannel,
                delete_channel::DeleteChannel,
                purge_channel::PurgeChannel,
            }
            evaluations {
                submit_evaluation::SubmitEvaluation,
                get_evaluation::GetEvaluation,
                list_evaluations::ListEvaluations,
                aggregate_evaluations::AggregateEvaluations,
            }
            agents {
                list_agents::ListAgents,
            }
            definitions {
                create_definition::CreateDefinition,
                fork_definition::ForkDefinition,
                promote_definition::PromoteDefinition,
                retire_definition::RetireDefinition,
                get_definition::GetDefinition,
                list_definitions::ListDefinitions,
                diff_definitions::DiffDefinitions,
                verify_definition::VerifyDefinition,
                agentdef::AgentDef,
            }
            goals {
                orchestrate::Orchestrate,
                orchestrate_resume::OrchestrateResume,
                orchestrate_status::OrchestrateStatus,
                orchestrate_tail::OrchestrateTail,
                orchestrate_result::OrchestrateResult,
                orchestrate_list::OrchestrateList,
                orchestrate_cancel::OrchestrateCancel,
                orchestrate_say::OrchestrateSay,
                orchestrate_rm::OrchestrateRm,
                orchestrate_land::OrchestrateLand,
                list_backends::ListBackends,
                doctor::Doctor,
            }
            worktrees {
                list_worktrees::ListWorktrees,
                diff_worktree::DiffWorktree,
                commit_worktree::CommitWorktree,
                remove_worktree::RemoveWorktree,
            }
            models {
                list_models::ListModels,
            }
            server {
                get_load::GetLoad,
                whoami::WhoAmI,
            }
        }
    };
}
