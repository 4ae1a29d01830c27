//! What the setup command made or changed is not the work of a worker, unless the worker changed it further.

use std::{collections::BTreeMap, fs::File};

use crate::{
    checkouts::Checkouts,
    error::Error,
    names::shown,
    places::{blocking, read_json, write_json},
    seen::Seen,
    state::{Goal, State},
};

impl Checkouts {
    /// Remembers what lies in a checkout after its setup and before its worker begins.
    pub(crate) async fn keep_files_of_setup(&self, goal: &Goal, name: &str, state: &State) -> Result<(), Error> {
        let work = goal.places.work(name);
        let index = self.index_of(goal, name, &state.parent_tree).await?;
        let repository = self.comparing(goal, &state.parent_tree).await?;
        let scan = self.scan(goal, repository, &work, &index).await?;
        let path = goal.places.setup(name);
        blocking(move || {
            let top = File::open(&work).map_err(Error::file("open", &work))?;
            let seen = scan.changed.keys().map(|path| (shown(path), Seen::at(&top, path).text()));
            write_json(&path, &seen.collect::<BTreeMap<_, _>>())
        })
        .await
    }

    /// What the setup command left in a checkout, by path.
    pub(crate) async fn files_of_setup(&self, goal: &Goal, name: &str) -> Result<BTreeMap<String, String>, Error> {
        let path = goal.places.setup(name);
        Ok(blocking(move || read_json(&path)).await?.unwrap_or_default())
    }
}
