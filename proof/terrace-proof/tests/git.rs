//! Git: a long history, repacked and checked.

use anyhow::{Result, ensure};
use std::path::Path;
use std::process::Command;
use terrace_proof::{Rng, VolumeSpec, proof, run, tool};

const COMMITS: u64 = 200;

fn git(repository: &Path, arguments: &[&str]) -> Result<String> {
    let identity = ["-c", "user.name=proof", "-c", "user.email=proof@localhost", "-c", "gc.auto=0"];
    run(Command::new(tool("git")?)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("HOME", repository)
        .arg("-C")
        .arg(repository)
        .args(identity)
        .args(["-c", "core.fsync=all"])
        .args(arguments))
}

fn commit_history(repository: &Path) -> Result<()> {
    let mut rng = Rng::new(31);
    for number in 0..COMMITS {
        for _ in 0..3 {
            let dir = repository.join(format!("d{}", rng.below(12)));
            std::fs::create_dir_all(&dir)?;
            let len = 200 + rng.below(20_000) as usize;
            std::fs::write(dir.join(format!("f{}", rng.below(30))), rng.bytes(len))?;
        }
        git(repository, &["add", "-A"])?;
        git(repository, &["commit", "-q", "-m", &format!("Change {number}")])?;
        if number % 50 == 25 {
            git(repository, &["branch", &format!("side-{number}"), "HEAD~5"])?;
        }
    }
    Ok(())
}

#[test]
fn history_survives_repacking_and_remounts() {
    proof(|| {
        let mut volume = VolumeSpec::new("git").pm_mib(32).mount()?;
        let repository = volume.join("repository");
        std::fs::create_dir(&repository)?;
        git(&repository, &["init", "-q", "-b", "main"])?;
        commit_history(&repository)?;
        git(&repository, &["fsck", "--full", "--strict"])?;
        git(&repository, &["gc", "-q", "--aggressive", "--prune=now"])?;
        volume.check()?;
        git(&repository, &["fsck", "--full", "--strict"])?;
        let history = git(&repository, &["rev-list", "--count", "main"])?;
        ensure!(history.trim() == COMMITS.to_string(), "{history} commits instead of {COMMITS}");
        git(volume.root(), &["clone", "-q", "--no-local", "repository", "copy"])?;
        git(&volume.join("copy"), &["fsck", "--full", "--strict"])?;
        let changes = git(&repository, &["status", "--porcelain"])?;
        ensure!(changes.is_empty(), "the work tree changed by itself: {changes}");
        Ok(())
    });
}
