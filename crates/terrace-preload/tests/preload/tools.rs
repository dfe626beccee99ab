//! Real programs do the same with the library as without.

use crate::runs::{Run, directory, have, run};

/// Runs a shell script both ways, in an empty directory of tmpfs each, and wants the same.
fn script(text: &str) -> Option<Run> {
    let (first, second) = (directory(), directory());
    let plain = run(&["sh", "-c", text], false, &[], first.path());
    assert!(plain.output.status.success(), "{}", plain.text());
    let direct = run(&["sh", "-c", text], true, &[], second.path());
    assert_eq!(plain.text(), direct.text());
    Some(direct)
}

#[test]
fn sqlite() {
    if !have("sqlite3") {
        return;
    }
    for mode in ["delete", "persist", "truncate", "wal", "memory"] {
        let run = script(&format!(
            "sqlite3 a.db 'pragma journal_mode={mode}; create table t(a,b);
             with recursive n(i) as (select 1 union all select i+1 from n where i<3000)
             insert into t select i, hex(i*i) from n; update t set b=b||a where a%3=0;
             delete from t where a%5=0; begin; delete from t; rollback; vacuum;
             select count(*), sum(a), max(b) from t; pragma integrity_check;'
             sqlite3 a.db 'select count(*) from t; pragma integrity_check;'"
        ));
        assert!(run.is_some_and(|run| run.direct() > 0), "{mode}");
    }
}

#[test]
fn python() {
    if !have("python3") {
        return;
    }
    let run = script(
        r#"cat > t.py <<'END'
import os, subprocess, tempfile
fd = os.open('x', os.O_RDWR | os.O_CREAT)
for i in range(50):
    os.write(fd, b'line %d\n' % i)
subprocess.run(['sh', '-c', 'echo child; echo child'], stdout=fd, check=True)
os.write(fd, b'after\n')
print(os.pread(fd, 1000, 0), os.lseek(fd, 0, 1))
with open('y', 'w+b', buffering=0) as f:
    for i in range(100):
        f.write(b'%d,' % i)
    f.seek(10)
    print(f.read(20), f.tell())
    f.truncate(50)
    print(f.seek(0, 2))
with open('z', 'w') as f:
    for i in range(10000):
        print(i, file=f)
print(sum(int(l) for l in open('z')))
with tempfile.TemporaryFile(dir='.') as f:
    f.write(b'x' * 100000)
    f.seek(5)
    print(len(f.read()))
END
python3 t.py; cksum x y z"#,
    );
    assert!(run.is_some_and(|run| run.direct() > 0));
}

#[test]
fn git_and_tar() {
    if !have("git") || !have("tar") {
        return;
    }
    script(
        "export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_DATE='1 +0000' GIT_COMMITTER_DATE='1 +0000'
         export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a
         mkdir tree; for i in 1 2 3 4 5 6 7 8 9; do seq $i 4000 > tree/$i; done
         git init -q -b main r; cp tree/* r; cd r; git add .; git commit -q -m one
         for i in 1 2 3; do seq 100 > $i; done; git commit -q -a -m two; git gc -q
         git log --format=%H; git fsck; cd ..; git clone -q r s; git -C s status --short
         cp -r tree t2; tar -cf a.tar --mtime=@1 --sort=name --owner=a --group=a tree
         mkdir out; tar -xf a.tar -C out; diff -r tree out/tree; cksum < a.tar
         gzip -n < a.tar > a.gz; gzip -d < a.gz | cmp - a.tar",
    );
}

#[test]
fn shells_and_small_tools() {
    script(
        "dd if=/dev/zero of=d bs=1000 count=100 conv=notrunc 2>/dev/null; cksum d
         dd if=d of=e bs=333 skip=3 seek=7 2>/dev/null; cksum e
         (echo a; echo b) > f; echo c >> f; cat f f > g; exec 3<>g; read line <&3; echo $line >&3
         echo more >&3; cat g; sort -r g | head -3 > h; cat h; sed -i s/a/x/ g; cat g
         seq 100000 > n; sort -S 1M -rn n | cksum; split -l 30000 n part.; cat part.* | cmp - n
         cp n m; cmp n m; truncate -s 100 m; tail -c 20 m; wc -c m; tee o < n | cksum; cksum o",
    );
}

#[test]
fn patterns_choose_files() {
    if !have("dd") || !have("sqlite3") {
        return;
    }
    let directory = directory();
    let make = "sqlite3 a.db 'create table t(a); insert into t values(1); insert into t values(2);
                insert into t values(3);'; rm a.db";
    let direct = |variables: &[(&str, &str)]| {
        run(&["sh", "-c", make], true, variables, directory.path()).report
    };
    // Files that were excluded are in the report, and say so.
    let excluded = |report: &str| {
        ["a.db", "a.db-journal"].map(|name| {
            let name = format!("/{name}");
            let line = report.lines().find(|line| line.ends_with(&name));
            line.unwrap_or_else(|| panic!("no line of {name}: {report}")).contains("(excluded)")
        })
    };
    assert_eq!(excluded(&direct(&[])), [false, false]);
    assert_eq!(excluded(&direct(&[("TERRACE_DIRECT", "*-journal")])), [true, false]);
    let not = [("TERRACE_DIRECT_NOT", "/nowhere:*-journal")];
    assert_eq!(excluded(&direct(&not)), [false, true]);
}
