//! The host of `cardinal_plugin::testing`, which authors' tests use, too.

use cardinal_plugin::{__private::abi, testing::fake_host};

pub(super) use cardinal_plugin::testing::fake_host::{FakeHost, api, lock};

/// The calling user of the tests here, and the plugin's own.
pub(super) const USER: &str = "0190d3a0-0000-7000-8000-00000000000a";

/// A request of [`USER`], unless the fields say another.
pub(super) fn request(fields: &[(u32, &str)], body: &str) -> abi::Request {
    let user = (abi::record::attr::USER_ID, USER);
    match fields.iter().any(|(number, _)| *number == user.0) {
        true => fake_host::request(fields, body),
        false => fake_host::request(&[fields, &[user]].concat(), body),
    }
}
