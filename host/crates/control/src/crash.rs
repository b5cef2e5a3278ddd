//! Who took a worker down, and what becomes of it. Supervisor and worker share a piece of memory: the worker
//! writes into it which plugins it runs, how many calls each has under way, and at its end, out of a signal handler,
//! on whose behalf the thread was running that ended it. The supervisor reads it when the worker is gone.

pub mod current;
pub mod descriptors;
mod ending;
pub mod handler;
pub mod history;
pub mod opened;
pub mod record;
pub mod shm;
mod shown;
mod tag;
pub mod vital;

pub use ending::{end_for_opening, end_for_taken_descriptors};
pub use tag::PluginTag;
