//! The SDK's side of the border, driven through the very tables that a host uses, with a host
//! that is made for it. No library is loaded: the whole test program is one "library", and its
//! instances share what a library's instances share.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod border {
    mod calls;
    mod database;
    mod fake_host;
    mod life;
    mod older_host;
    mod panics;
    mod plugin;
    mod streams;
}
