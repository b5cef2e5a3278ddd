//! A filter of system calls, as the kernel takes it.

use std::collections::BTreeMap;

use libc::c_int;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen::Dword, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

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

/// A rule fits where all conditions of one of these hold.
pub(super) fn any_of(rules: impl IntoIterator<Item = Vec<SeccompCondition>>) -> anyhow::Result<Vec<SeccompRule>> {
    each(rules, |conditions| Ok(SeccompRule::new(conditions)?))
}

pub(super) fn each<A, B>(
    items: impl IntoIterator<Item = A>,
    make: impl Fn(A) -> anyhow::Result<B>,
) -> anyhow::Result<Vec<B>> {
    items.into_iter().map(make).collect()
}

/// The bits of `mask` in this argument are those of `value`.
pub(super) fn masked(argument: u8, mask: u64, value: u64) -> anyhow::Result<SeccompCondition> {
    Ok(SeccompCondition::new(argument, Dword, SeccompCmpOp::MaskedEq(mask), value)?)
}

pub(super) fn has(argument: u8, bit: u64) -> anyhow::Result<SeccompCondition> {
    masked(argument, bit, bit)
}

pub(super) fn is(argument: u8, value: u64) -> anyhow::Result<SeccompCondition> {
    Ok(SeccompCondition::new(argument, Dword, SeccompCmpOp::Eq, value)?)
}

pub(super) fn differs(argument: u8, value: u64) -> anyhow::Result<SeccompCondition> {
    Ok(SeccompCondition::new(argument, Dword, SeccompCmpOp::Ne, value)?)
}
