//! The host of `cardinal_plugin::testing`, which authors' tests use, too.

pub(super) use cardinal_plugin::testing::fake_host::{FakeHost, api, lock, request};

/// The calling user of the tests here, and the plugin's own.
pub(super) const USER: &str = "0190d3a0-0000-7000-8000-00000000000a";
