//! A parallel build: many short processes that create, read, replace and stat small files.

use anyhow::{Result, ensure};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use terrace_proof::{VolumeSpec, proof, run, tool};

const SOURCES: usize = 120;

/// A C program of many files that prints the sum of their numbers, with a generated header, a
/// static library and dependency files.
fn write_project(dir: &Path) -> Result<()> {
    let mut all = String::from(
        "#include <stdio.h>\n#include \"parts.h\"\nint main(void) {\n  long sum = 0;\n",
    );
    for number in 0..SOURCES {
        std::fs::write(
            dir.join(format!("part{number}.c")),
            format!(
                "#include \"parts.h\"\nlong part{number}(void) {{ return {number} * SCALE; }}\n"
            ),
        )?;
        writeln!(all, "  sum += part{number}();")?;
    }
    all += "  printf(\"%ld\\n\", sum);\n  return 0;\n}\n";
    std::fs::write(dir.join("main.c"), all)?;
    std::fs::write(dir.join("scale"), "3\n")?;
    std::fs::write(
        dir.join("Makefile"),
        "PARTS := $(sort $(wildcard part*.c))\n\
         OBJECTS := $(PARTS:.c=.o)\n\
         program: main.o libparts.a\n\
         \tcc -o $@ main.o -L. -lparts\n\
         libparts.a: $(OBJECTS)\n\
         \trm -f $@; ar rcs $@ $(OBJECTS)\n\
         %.o: %.c parts.h\n\
         \tcc -O1 -MMD -c -o $@ $<\n\
         parts.h: scale $(PARTS)\n\
         \t( echo \"#define SCALE $$(cat scale)\"; for p in $(PARTS:.c=); do echo \"long \
                    $$p(void);\"; done ) > $@.tmp\n\
         \tmv $@.tmp $@\n\
         -include $(wildcard *.d)\n",
    )?;
    Ok(())
}

fn build(dir: &Path) -> Result<String> {
    tool("cc")?;
    run(Command::new(tool("make")?).arg("-C").arg(dir).arg("-j2"))
}

#[test]
fn parallel_build_is_right_and_incremental() {
    proof(|| {
        let mut volume = VolumeSpec::new("make").pm_mib(32).mount()?;
        let dir = volume.join("project");
        std::fs::create_dir(&dir)?;
        write_project(&dir)?;
        build(&dir)?;
        let sum: usize = (0..SOURCES).sum();
        ensure!(run(&mut Command::new(dir.join("program")))?.trim() == (sum * 3).to_string());

        volume.check()?;
        let again = build(&dir)?;
        ensure!(!again.contains("cc "), "a remount made files look newer than they are:\n{again}");

        std::fs::write(dir.join("scale"), "5\n")?;
        build(&dir)?;
        ensure!(run(&mut Command::new(dir.join("program")))?.trim() == (sum * 5).to_string());
        Ok(())
    });
}
