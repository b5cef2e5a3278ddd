//! The host side of the plugin ABI against real libraries and a real PostgreSQL: the fixture `echo`
//! for what authors do, and the doors themselves, called as a library calls them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "plugin/calls.rs"]
mod calls;
#[path = "plugin/cards.rs"]
mod cards;
#[path = "plugin/clean.rs"]
mod clean;
#[allow(dead_code)] // the supervisor's tests use the rest
#[path = "supervisor/database.rs"]
mod database;
#[path = "plugin/doors.rs"]
mod doors;
#[path = "plugin/faults.rs"]
mod faults;
#[path = "plugin/listening.rs"]
mod listening;
#[path = "plugin/rows.rs"]
mod rows;
#[path = "plugin/support.rs"]
mod support;
