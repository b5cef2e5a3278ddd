//! The host's side of the ABI: the table of functions that a plugin calls.
//!
//! Each host function is a plain C function that takes numbers, looks them up, and refuses what it does not
//! know. What it begins runs on the host's own runtime, so that a plugin may call from any thread,
//! with or without a runtime, and only ever waits for a completion. Nothing panics out of one,
//! and nothing that a plugin lends is looked at after it has returned.

pub mod call;
mod cards;
pub mod database;
pub mod exchanges;
mod fault;
mod host_fn;
mod http;
mod jobs;
mod listen;
pub mod metrics;
pub mod scope;
pub mod streams;
pub mod table;
mod waits;
mod work;

use std::sync::LazyLock;

use abi_stable::prefix_type::PrefixTypeTrait;
use cardinal_plugin_abi::{HostApi, HostApiRef};

/// The table, made once; every plugin gets the same one.
pub fn host_api() -> HostApiRef {
    static TABLE: LazyLock<HostApiRef> = LazyLock::new(|| {
        HostApi {
            log: work::log,
            metric: work::metric,
            settings: work::settings,
            service_user: work::service_user,
            cancelled: work::cancelled,
            read_card: cards::read_card,
            list_cards: cards::list_cards,
            card_events: cards::card_events,
            enrich_card: cards::enrich_card,
            remove_source: cards::remove_source,
            db_connect: database::connect,
            db_release: database::release,
            db_prepare: database::prepare,
            db_query: database::query,
            db_execute: database::execute,
            db_batch: database::batch,
            db_copy_in: database::copy_in,
            db_copy_out: database::copy_out,
            connect_options: database::connect_options,
            register_thread: work::register_thread,
            progress: work::progress,
            get_extension: work::get_extension,
        }
        .leak_into_prefix()
    });
    *TABLE
}
