//! What the database knows of plugins: who owns a name, which versions have served, what is switched on, their jobs and
//! schedules.

pub mod confirmations;
pub mod jobs;
pub mod owners;
pub mod schedules;
pub mod service;
pub mod session;
pub mod state;
pub mod versions;
