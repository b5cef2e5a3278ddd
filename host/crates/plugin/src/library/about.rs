//! What an instance learns of itself and its host when it is made.

use cardinal_plugin_abi::{
    API_MINOR,
    record::{self, instance},
};

use cardinal_package::compat;

/// The `about` of `create`; the trial of a library has the generation 0.
pub fn record(generation: u64) -> Vec<u8> {
    let (generation, core, minor) = (generation.to_string(), compat::core_version().to_string(), API_MINOR.to_string());
    record::write(&[
        (instance::GENERATION, generation.as_bytes()),
        (instance::CORE_VERSION, core.as_bytes()),
        (instance::API_MINOR, minor.as_bytes()),
    ])
}
