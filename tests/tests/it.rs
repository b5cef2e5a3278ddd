//! Black-box tests, a module per subject. See `tests/README.md`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod it {
    mod tidy;
}
