//! A filter of system calls, as the kernel takes it.

use std::collections::BTreeMap;

use libc::c_int;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, SeccompRule, TargetArch};

/// By the calls' numbers: a call is refused where one of its rules fits, and always where it has none.
pub(super) type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// What these rules refuse fails with this error; all else is allowed.
pub(super) fn filter(rules: Rules, errno: c_int) -> anyhow::Result<BpfProgram> {
    program(rules, SeccompAction::Allow, SeccompAction::Errno(errno.unsigned_abs()))
}

/// The reverse: a call is allowed where one of its rules fits, and always where it has none; all else fails with this
/// error.
pub(super) fn allow_only(rules: Rules, errno: c_int) -> anyhow::Result<BpfProgram> {
    program(rules, SeccompAction::Errno(errno.unsigned_abs()), SeccompAction::Allow)
}

fn program(rules: Rules, otherwise: SeccompAction, fitting: SeccompAction) -> anyhow::Result<BpfProgram> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    Ok(SeccompFilter::new(rules, otherwise, fitting, arch)?.try_into()?)
}
