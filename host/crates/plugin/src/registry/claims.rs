//! Which of the plugins that may be tried get into service, when several want the same thing.
//!
//! The first by name gets it. But a plugin that is refused owns nothing: a plugin that was turned away
//! because of it gets another turn. So a broken package never keeps a good one out.

use std::sync::Arc;

use super::{
    candidate::{PackageError, PackageSummary},
    entry::{Entry, Service},
    load::Loader,
    loads::{Load, Loads},
    policy::{Approved, Step},
    snapshot::Before,
};
use cardinal_package::{compat::Claims, refusal::Refusal, state::State};

/// Takes every step to its end. What serves in `before` owns what it owns until it is replaced.
/// A load that takes long goes on when this has ended, and owns what it wants meanwhile.
pub(super) async fn resolve_claims(
    loader: &Arc<Loader>,
    loads: &Loads,
    steps: Vec<Step>,
    before: &Before<'_>,
) -> Vec<Entry> {
    let mut claims = Claims::default();
    let (mut entries, mut waiting) = (Vec::new(), Vec::new());
    for step in steps {
        match step {
            Step::Done(entry) => entries.push(stay(&mut claims, before, entry)),
            Step::Keep(entry) => entries.push(keep(&mut claims, entry)),
            Step::Load(approved) => {
                if let Some((_, service)) = before.serving(&approved.about) {
                    // Cannot fail: all that serve together have been in the claims of one scan.
                    let _ = claims.take(&service.active.manifest, &approved.about.origin);
                }
                match loads.join(&approved) {
                    Some((number, manifest)) => {
                        let _ = claims.take(&manifest, &approved.about.origin); // it began before those who want the same
                        entries.push(being_loaded(before, approved.about, number));
                    }
                    None => waiting.push(*approved),
                }
            }
        }
    }
    while !waiting.is_empty() {
        let (going, blocked) = divide(&mut claims, waiting);
        let mut room_made = false;
        let begun = going.into_iter().map(|approved| loads.begin(loader, approved)).collect();
        for (load, outcome) in loads.wait(begun).await {
            let Some(outcome) = outcome else {
                entries.push(being_loaded(before, load.about.clone(), load.number));
                loads.leave(load);
                continue;
            };
            room_made |= outcome.is_err() || before.serving(&load.about).is_some();
            entries.push(arrive(&mut claims, before, load, outcome));
        }
        if !room_made {
            let turned_away = blocked.into_iter().map(|(approved, refusal)| match approved.instead_of {
                Some(entry) => *entry,
                None => Entry::ended(approved.about, refusal.into()),
            });
            entries.extend(turned_away.map(|entry| stay(&mut claims, before, entry)));
            break;
        }
        waiting = blocked.into_iter().map(|(approved, _)| approved).collect();
    }
    entries
}

/// The end of a walk: what was replaced gives back what it owned, and so does what was refused.
fn arrive(claims: &mut Claims, before: &Before<'_>, load: Load, outcome: Result<Service, PackageError>) -> Entry {
    let Load { about, manifest, instead_of, .. } = load;
    match outcome {
        Ok(service) => {
            if let Some((_, replaced)) = before.serving(&about) {
                claims.release(&replaced.active.manifest);
                let _ = claims.take(&manifest, &about.origin); // what both of them own
            }
            match instead_of {
                Some(entry) => entry.behind(about, Arc::new(service)),
                None => Entry::in_service(about, Arc::new(service)),
            }
        }
        Err(error) => {
            claims.release(&manifest);
            let ended = Entry::ended(about, error);
            let ended = match instead_of {
                Some(entry) => entry.without_stand_in(&ended),
                None => ended,
            };
            stay(claims, before, ended)
        }
    }
}

/// The active package stays in service until its replacement is loaded.
fn being_loaded(before: &Before<'_>, about: PackageSummary, number: u64) -> Entry {
    let serving = before.serving(&about);
    let entry = Entry::loading(about, number);
    match serving {
        Some((about, service)) => entry.behind(about.clone(), Arc::clone(service)),
        None => entry,
    }
}

/// The active package stays in service while the files that would replace it are refused.
fn stay(claims: &mut Claims, before: &Before<'_>, entry: Entry) -> Entry {
    if matches!(entry.state, State::Disabled | State::Quarantined) {
        return entry;
    }
    let Some((about, service)) = before.serving(&entry.about) else { return entry };
    match claims.take(&service.active.manifest, &entry.about.origin) {
        Ok(()) => entry.behind(about.clone(), Arc::clone(service)),
        Err(_) => entry,
    }
}

/// What runs is first in line, so its claims are free; were they not, it would have to go.
fn keep(claims: &mut Claims, mut entry: Entry) -> Entry {
    let taken = entry.about.manifest.as_ref().map_or(Ok(()), |manifest| claims.take(manifest, &entry.about.origin));
    if let Err(refusal) = taken {
        entry.refuse(refusal);
    }
    entry
}

/// Those whose claims are free, and the rest with who stands in their way.
fn divide(claims: &mut Claims, waiting: Vec<Approved>) -> (Vec<Approved>, Vec<(Approved, Refusal)>) {
    let (mut going, mut blocked) = (Vec::new(), Vec::new());
    for approved in waiting {
        match claims.take(approved.candidate.manifest(), &approved.about.origin) {
            Ok(()) => going.push(approved),
            Err(refusal) => blocked.push((approved, refusal)),
        }
    }
    (going, blocked)
}
