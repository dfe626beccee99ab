//! What makes this machine slow or a mount unsafe, with the remedy: `terrace doctor`.
//!
//! Everything is found below a root directory that [`Machine`] names, which is made up in tests.
//! The few facts that no file tells are fields of it. Nothing is changed by looking.

mod access;
mod cpu;
mod devices;
mod kernel;
mod machine;
mod memory;
mod mount;

use std::path::PathBuf;

use serde::Serialize;

use crate::output::in_a_line;

pub use devices::PmDevice;
pub use machine::Machine;
pub use mount::{MountState, ring_remark};

/// What a finding means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// It works, and could be faster.
    Slow,
    /// Data may be lost, or read by others.
    Unsafe,
    /// Something that would be of use is not there.
    Missing,
}

impl Verdict {
    fn name(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Slow => "slow",
            Verdict::Unsafe => "unsafe",
            Verdict::Missing => "missing",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it means.
    pub verdict: Verdict,
    /// What was looked at.
    pub topic: String,
    /// What was found.
    pub found: String,
    /// What helps; none if nothing needs to.
    pub remedy: Option<String>,
}

impl Finding {
    fn ok(topic: &str, found: impl Into<String>) -> Finding {
        Finding { verdict: Verdict::Ok, topic: topic.into(), found: found.into(), remedy: None }
    }

    fn of(
        verdict: Verdict,
        topic: &str,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding { verdict, remedy: Some(remedy.into()), ..Finding::ok(topic, found) }
    }

    fn slow(topic: &str, found: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding::of(Verdict::Slow, topic, found, remedy)
    }

    fn dangerous(topic: &str, found: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding::of(Verdict::Unsafe, topic, found, remedy)
    }

    fn missing(topic: &str, found: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding::of(Verdict::Missing, topic, found, remedy)
    }
}

/// What to look at beside the machine.
#[derive(Debug, Default)]
pub struct Subject {
    /// A mounted volume.
    pub mount: Option<MountState>,
    /// A volume's PM.
    pub pm: Option<PmDevice>,
    /// Disks, of a volume or for one.
    pub disks: Vec<PathBuf>,
}

/// Looks at everything.
pub fn examine(machine: &Machine, subject: &Subject) -> Vec<Finding> {
    let mut findings = vec![kernel::version(machine), kernel::ring(machine)];
    findings.extend(access::findings(machine));
    findings.extend(memory::findings(machine));
    findings.extend(cpu::findings(machine));
    findings.extend(subject.mount.iter().flat_map(|state| mount::findings(machine, state)));
    findings.extend(subject.pm.iter().flat_map(devices::pm));
    findings.extend(subject.disks.iter().flat_map(|path| devices::disk(machine, path)));
    findings
}

/// Findings for people, one a line.
pub fn to_text(findings: &[Finding]) -> String {
    let line = |finding: &Finding| {
        let Finding { verdict, topic, found, remedy } = finding;
        let remedy = remedy.as_ref().map(|remedy| format!("; remedy: {remedy}"));
        let text = format!("{topic}: {found}{}", remedy.unwrap_or_default());
        format!("{:<8} {}\n", verdict.name(), in_a_line(&text))
    };
    findings.iter().map(line).collect()
}

/// Whether anything is unsafe.
pub fn is_unsafe(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.verdict == Verdict::Unsafe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_finding_is_a_line() {
        let findings = [
            Finding::ok("kernel", "Linux 6.18"),
            Finding::dangerous("disk /dev/a\nb", "it lies", "another disk"),
        ];
        assert_eq!(
            to_text(&findings),
            "ok       kernel: Linux 6.18\n\
             unsafe   disk /dev/a\\nb: it lies; remedy: another disk\n"
        );
        assert!(is_unsafe(&findings) && !is_unsafe(&findings[..1]));
    }

    #[test]
    fn this_machine_is_examined_and_every_trouble_has_a_remedy() {
        let findings = examine(&Machine::here(), &Subject::default());
        assert!(findings.len() > 10, "{findings:?}");
        for finding in &findings {
            assert_eq!(finding.verdict == Verdict::Ok, finding.remedy.is_none(), "{finding:?}");
        }
    }
}
