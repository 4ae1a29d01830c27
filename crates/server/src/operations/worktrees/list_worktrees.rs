//! `list_worktrees`: the checkouts of goals, the newest goal first.

use drawloom_contract::{
    caller::Scope,
    failure::{Failure, FailureKind},
};
use drawloom_wire::{
    goals::GoalStatus,
    worktrees::{self, Worktree, WorktreeList},
};

use crate::{
    operation::{Answer, Call, Card, Operation},
    worktrees::Which,
};

pub(crate) struct ListWorktrees;

impl Operation for ListWorktrees {
    type Input = worktrees::ListWorktrees;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("List the checkouts of goals.", Scope::RunsRead)
            .toolset("goal")
            .advice("Each goal has its branch and base, each checkout its path and the files that are not committed.")
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<WorktreeList>, Failure> {
        let goals = &call.app.goals;
        let host = goals.host.worktrees();
        let which = if input.all { Which::All } else { Which::WithCheckouts };
        let (runs, most) = match input.run_id {
            Some(run) => (vec![run], 1),
            None => (host.list(which).await?, input.limit.unwrap_or(20) as usize),
        };
        let mut found = Vec::new();
        for run in runs {
            if found.len() == most {
                break;
            }
            let read = match goals.read(call.app, call.caller, run).await {
                Ok(read) => read,
                // A goal of another user, or one whose run was deleted.
                Err(failure) if failure.kind == FailureKind::NotFound && input.run_id.is_none() => continue,
                Err(failure) => return Err(failure),
            };
            let status = goals.status(call.app, &read);
            let mut worktree = match host.load(run).await {
                Ok(worktree) => worktree,
                // One that cannot be read does not hide the others.
                Err(failure) if input.run_id.is_none() => unreadable(&status, &failure),
                Err(failure) => return Err(failure),
            };
            (worktree.goal, worktree.status) = (status.goal, status.status);
            found.push(worktree);
        }
        Ok(Answer::Value(WorktreeList { worktrees: found }))
    }
}

fn unreadable(goal: &GoalStatus, failure: &Failure) -> Worktree {
    Worktree {
        run_id: goal.run_id,
        goal: String::new(),
        status: String::new(),
        repository: goal.repository.clone().unwrap_or_default(),
        branch: goal.branch.clone().unwrap_or_default(),
        base: String::new(),
        head: None,
        bytes: 0,
        checkouts: Vec::new(),
        problem: Some(failure.message.clone()),
    }
}
