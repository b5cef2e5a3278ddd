#![doc = include_str!("../README.md")]
// A harness may stop at the first thing that is not as it should be: that is what it is for.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::missing_panics_doc)]

mod answer;
mod client;
mod cluster;
mod disk;
mod event_stream;
mod failure;
mod host;
mod others;
mod pages;
mod plugins;
mod pooler;
mod port_reservation;
mod process;
mod provider;
mod relay;
mod upstream;
mod user;
mod wire;

pub use answer::Answer;
pub use client::{Call, Client};
pub use disk::SmallDisk;
pub use event_stream::{EventStream, Sent};
pub use host::{Host, HostSettings, OWNER, OWNER_PASSWORD, cardinal_on};
pub use others::Others;
pub use pages::{PageAnswer, Pages};
pub use plugins::{Package, PluginsFolder};
pub use pooler::{Lends, Pooler};
pub use port_reservation::PortReservation;
pub use process::{
    Program, WAIT_TIMEOUT, built, cardinal, cardinal_program, cardinal_with, command_line, dead_children, descendants,
    eventually, exited, has_browser, is_long_run, lives, printed_json, repository, run,
};
pub use provider::{Federated, Provider};
pub use relay::{Network, Relay};
pub use upstream::{Seen, Upstream};
pub use user::{PASSWORD, User, unique};
pub use wire::{WebSocketEcho, exchange};
