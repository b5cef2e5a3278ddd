//! What the system says of a process in `/proc/<pid>/stat`.

use std::fs;

use rustix::process::Pid;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ProcessStat {
    pub(crate) pid: Pid,
    /// `T` or `t` is one that was stopped, `Z` a dead one that nobody has waited for.
    pub(crate) state: char,
    pub(crate) parent: u32,
    pub(crate) session: u32,
    /// A number that is given again belongs to a process that started later.
    pub(crate) started: u64,
}

impl ProcessStat {
    /// Of a living process, or of a dead one that nobody has waited for.
    pub(crate) fn from_pid(process: u32) -> Option<Self> {
        Self::read(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
    }

    /// Of all processes that this one sees.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        processes.filter_map(|process| Self::from_pid(process.file_name().to_str()?.parse().ok()?))
    }

    /// Of a line `pid (name) state parent ...`; the name may hold anything, blanks and brackets, too.
    fn read(stat: &str) -> Option<Self> {
        /// The places of fields behind the name.
        const STATE: usize = 0;
        const PARENT: usize = 1;
        const SESSION: usize = 3;
        const STARTED: usize = 19;
        let (pid, _) = stat.split_once(" (")?;
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        Some(Self {
            pid: Pid::from_raw(pid.parse().ok()?)?,
            state: fields.get(STATE)?.chars().next()?,
            parent: fields.get(PARENT)?.parse().ok()?,
            session: fields.get(SESSION)?.parse().ok()?,
            started: fields.get(STARTED)?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_name_hides_nothing() {
        let read =
            |name: &str| ProcessStat::read(&format!("42 ({name}) Z 7 1 6 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4711 0"));
        let pid = Pid::from_raw(42).unwrap();
        assert_eq!(read("cat"), Some(ProcessStat { pid, state: 'Z', parent: 7, session: 6, started: 4711 }));
        assert_eq!(read("a) S 1 (b"), read("cat"));
        assert_eq!(ProcessStat::read("42 (cat) S 7 1"), None);
    }
}
