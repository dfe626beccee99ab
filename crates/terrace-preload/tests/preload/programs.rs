//! Programs in C do the same with the library as without.

use crate::runs::{Run, same};

/// Some calls of the run went direct.
fn went_direct(run: Option<Run>) {
    if let Some(run) = run {
        assert!(run.direct() > 0, "nothing went direct: {}", run.report);
    }
}

#[test]
fn a_bad_buffer_gives_efault() {
    went_direct(same("buffers", &[], &[]));
}

#[test]
fn faults_of_the_program_reach_its_own_handlers() {
    went_direct(same("faults", &["handlers"], &[]));
}

#[test]
fn faults_of_the_program_kill_it() {
    for how in ["default", "raise", "ignored", "bus", "once"] {
        same("faults", &[how], &[]);
    }
}

#[test]
fn a_bad_buffer_gives_efault_whatever_the_program_does_to_the_signal() {
    for how in ["blocked", "bare"] {
        went_direct(same("faults", &[how], &[]));
    }
}

#[test]
fn a_handler_uses_the_same_file_in_the_middle_of_a_call() {
    for how in ["write", "read"] {
        let run = same("middle", &[how], &[("TERRACE_MAPPED_SIGNAL", "10")]);
        if let Some(run) = run {
            assert!(run.report.contains("signal handler"), "{how}: {}", run.report);
        }
    }
}

/// Behind each single instruction of a call.
#[test]
fn a_handler_comes_at_any_moment_of_a_call() {
    for how in ["write", "current", "end", "lock"] {
        for inner in ["write", "fork", "dup2"] {
            for flags in ["", "append"] {
                went_direct(same("steps", &[how, inner, flags], &[]));
            }
        }
    }
    went_direct(same("steps", &["read", "read", ""], &[]));
}

#[test]
fn a_jump_out_of_a_call_leaves_a_thread_that_works() {
    went_direct(same("middle", &["jump"], &[("TERRACE_MAPPED_SIGNAL", "10")]));
}

#[test]
fn a_jump_out_of_a_call_does_not_hold_up_other_threads() {
    let run = same("threads", &["left"], &[("TERRACE_MAPPED_SIGNAL", "10")]);
    if let Some(run) = run {
        assert!(run.report.contains("a call was left"), "{}", run.report);
    }
}

#[test]
fn threads_are_cancelled_in_direct_calls() {
    went_direct(same("threads", &["cancel"], &[]));
}

#[test]
fn threads_share_a_position() {
    went_direct(same("threads", &["count"], &[]));
    went_direct(same("threads", &["count"], &[("TERRACE_MAPPED_REFUSE", "3")]));
}

#[test]
fn threads_that_may_end_anywhere_write_where_they_should() {
    went_direct(same("threads", &["anywhere"], &[]));
}

/// As a log that is rotated while others write to it.
#[test]
fn a_number_becomes_another_file_s_while_threads_write() {
    for how in ["rotate", "itself"] {
        went_direct(same("threads", &[how], &[]));
    }
}

#[test]
fn descriptors_of_several_processes_and_numbers() {
    for how in [
        "fork",
        "syscall",
        "bare",
        "dup",
        "early",
        "out",
        "reuse",
        "fdopen",
        "dprintf",
        "exec",
        "execl",
        "vfork",
        "system",
        "append",
        "message",
        "copies",
        "mapped",
        "closefrom",
        "fails",
        "alone",
    ] {
        went_direct(same("processes", &[how], &[]));
        same("processes", &[how], &[("TERRACE_MAPPED_REFUSE", "2")]);
    }
}

/// Seeds of the random programs; `TERRACE_LONG=1` takes more.
fn seeds() -> std::ops::Range<u64> {
    let first = std::env::var("TERRACE_SEED").ok().and_then(|seed| seed.parse().ok());
    match first {
        Some(seed) => seed..seed + 1,
        None if std::env::var_os("TERRACE_LONG").is_some() => 0..100,
        None => 0..20,
    }
}

#[test]
fn random_calls() {
    for seed in seeds() {
        eprintln!("TERRACE_SEED={seed}");
        went_direct(same("random", &[&seed.to_string()], &[]));
    }
}

#[test]
fn random_calls_of_which_some_are_refused() {
    for seed in seeds() {
        eprintln!("TERRACE_SEED={seed}");
        let every = (seed % 7 + 2).to_string();
        went_direct(same("random", &[&seed.to_string()], &[("TERRACE_MAPPED_REFUSE", &every)]));
    }
}

#[test]
fn calls_that_few_programs_make() {
    for how in ["position", "malloc", "aio", "io_submit", "unshare", "flags"] {
        went_direct(same("others", &[how], &[]));
    }
}
