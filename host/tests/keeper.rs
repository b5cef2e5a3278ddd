//! Keeper, private PostgreSQL, roles, migrations and schema steps, against a real server that the code under test
//! starts: one for the whole binary, a database for each test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "keeper/backup.rs"]
mod backup;
#[path = "keeper/card_lock.rs"]
mod card_lock;
#[path = "keeper/database.rs"]
mod database;
#[path = "keeper/differential.rs"]
mod differential;
#[path = "keeper/everywhere.rs"]
mod everywhere;
#[path = "keeper/floods.rs"]
mod floods;
#[path = "keeper/hostile.rs"]
mod hostile;
#[path = "keeper/losses.rs"]
mod losses;
#[path = "keeper/memory.rs"]
mod memory;
#[path = "keeper/migrations.rs"]
mod migrations;
#[path = "keeper/owner.rs"]
mod owner;
#[path = "keeper/privileges.rs"]
mod privileges;
#[path = "keeper/process.rs"]
mod process;
#[path = "keeper/reaper.rs"]
mod reaper;
#[path = "keeper/removals.rs"]
mod removals;
#[path = "keeper/schema_run.rs"]
mod schema_run;
#[path = "keeper/server.rs"]
mod server;
#[path = "keeper/session_watch.rs"]
mod session_watch;
#[path = "keeper/step_turns.rs"]
mod step_turns;
#[path = "keeper/steps.rs"]
mod steps;
#[path = "keeper/url.rs"]
mod url;
#[path = "keeper/way_out.rs"]
mod way_out;
