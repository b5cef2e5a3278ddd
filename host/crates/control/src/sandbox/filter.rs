//! A filter of system calls, as the kernel takes it.

use std::collections::BTreeMap;

use libc::c_int;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, SeccompRule, TargetArch};

/// By the calls' numbers: a call is refused where one of its rules fits, and always where it has none.
pub(super) type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// What these rules refuse fails with this error; all else is allowed.
pub(super) fn filter(rules: Rules, errno: c_int) -> anyhow::Result<BpfProgram> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let refused = SeccompAction::Errno(errno.unsigned_abs());
    Ok(SeccompFilter::new(rules, SeccompAction::Allow, refused, arch)?.try_into()?)
}
