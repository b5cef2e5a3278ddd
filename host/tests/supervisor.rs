//! Supervisor, private PostgreSQL, roles, migrations and schema steps, against a real server that the code under test
//! starts: one for the whole binary, a database for each test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "supervisor/backup.rs"]
mod backup;
#[path = "supervisor/backup_blockers.rs"]
mod backup_blockers;
#[path = "supervisor/card_lock.rs"]
mod card_lock;
#[path = "supervisor/database.rs"]
mod database;
#[path = "supervisor/differential.rs"]
mod differential;
#[path = "supervisor/everywhere.rs"]
mod everywhere;
#[path = "supervisor/floods.rs"]
mod floods;
#[path = "supervisor/hostile.rs"]
mod hostile;
#[path = "supervisor/late_checks.rs"]
mod late_checks;
#[path = "supervisor/losses.rs"]
mod losses;
#[path = "supervisor/memory.rs"]
mod memory;
#[path = "supervisor/migrations.rs"]
mod migrations;
#[path = "supervisor/owner.rs"]
mod owner;
#[path = "supervisor/privileges.rs"]
mod privileges;
#[path = "supervisor/process.rs"]
mod process;
#[path = "supervisor/reaper.rs"]
mod reaper;
#[path = "supervisor/removals.rs"]
mod removals;
#[path = "supervisor/schema_run.rs"]
mod schema_run;
#[path = "supervisor/server.rs"]
mod server;
#[path = "supervisor/session_watch.rs"]
mod session_watch;
#[path = "supervisor/slow_expression.rs"]
mod slow_expression;
#[path = "supervisor/step_turns.rs"]
mod step_turns;
#[path = "supervisor/steps.rs"]
mod steps;
#[path = "supervisor/url.rs"]
mod url;
#[path = "supervisor/way_out.rs"]
mod way_out;
