//! Options as text, both ways: a list as people write it, and the list that says all of them.

use terrace_fuse::Transport;
use terrace_media::IoEngine;
use terrace_policy::Param;

use super::MountOptions;

/// Splits at commas, but not at `\,`; empty items are dropped.
pub(super) fn split_list(list: &str) -> Vec<String> {
    let mut items = vec![String::new()];
    let mut chars = list.chars().peekable();
    while let Some(c) = chars.next() {
        let item = items.last_mut().expect("it begins with one");
        match c {
            '\\' if chars.peek() == Some(&',') => item.extend(chars.next()),
            ',' => items.push(String::new()),
            _ => item.push(c),
        }
    }
    items.retain(|item| !item.is_empty());
    items
}

impl MountOptions {
    /// A list that another program makes the same options of, whatever its defaults are.
    ///
    /// # Errors
    /// A sentence that names a path that is not UTF-8: a list cannot say it.
    pub fn to_list(&self) -> Result<String, String> {
        let path = |path: &std::path::PathBuf| match path.to_str() {
            Some(text) => Ok(text.to_owned()),
            None => Err(format!("{}: a path that is not UTF-8 cannot be told", path.display())),
        };
        let number = |value: Option<u64>| value.map(|value| value.to_string());
        let mut values: Vec<(&str, String)> = vec![
            ("writeback", self.writeback_seconds.to_string()),
            ("pm_full", self.pm_full_percent.to_string()),
            ("transport", transport(self.transport).to_owned()),
            ("engine", engine(self.engine).to_owned()),
            ("lend", self.lend.to_string()),
        ];
        let mut optional = |name, value: Option<String>| values.extend(value.map(|v| (name, v)));
        optional("cache", number(self.cache_bytes));
        optional("cache_dir", self.cache_dir.as_ref().map(path).transpose()?);
        optional("queue_depth", number(self.queue_depth.map(|depth| depth as u64)));
        optional("threads", number(self.threads.map(|threads| threads as u64)));
        optional("log", self.log.as_ref().map(path).transpose()?);
        optional("metrics", self.metrics.as_ref().map(ToString::to_string));
        for disk in &self.disks {
            values.push(("disk", path(disk)?));
        }
        values.extend(self.models.iter().map(|model| ("model", model.to_string())));
        for budget in &self.wear {
            values.push(("wear", crate::wear::to_text(budget)?));
        }
        let thresholds = Param::ALL.iter().map(|&param| (param, self.params.get(param)));
        values.extend(thresholds.map(|(param, value)| (param.tunable().name, value.to_string())));
        let values = values.into_iter().map(|(name, value)| format!("{name}={value}"));
        let items = self.flags.iter().cloned().chain(values);
        Ok(items.map(|item| item.replace(',', "\\,")).collect::<Vec<_>>().join(","))
    }
}

fn transport(way: Transport) -> &'static str {
    match way {
        Transport::Auto => "auto",
        Transport::IoUring => "io_uring",
        Transport::Device => "device",
    }
}

fn engine(engine: IoEngine) -> &'static str {
    match engine {
        IoEngine::Auto => "auto",
        IoEngine::Uring => "uring",
        IoEngine::Sync => "sync",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_says_all_options() {
        for list in [
            "",
            "ro,remount,rw,noatime,durable,allow_other,default_permissions,clone_fd,nokeeper",
            "keeper,nodev,nosuid,noexec,nodirect,cache=1.5G,cache_dir=/run/x,writeback=30",
            "pm_full=80,threads=3,transport=io_uring,queue_depth=9,engine=sync,transport=auto",
            r"disk=/a\,b,disk=/b,model=pm=pm,model=disk=ssd,model=disk2=hdd,log=/l",
            "engine=uring,metrics=/run/m,group=4M,migrate_rate=100M,migrate=0,cold_age=7",
            "metrics=127.0.0.1:9464,lend=group=root",
            r"wear=pm:1.5G/day,wear=disk3:100G/day,wear=/dev/a\,b:1M/day",
        ] {
            let mut options = MountOptions::new(true);
            options.apply(&list.replace("model=disk=ssd", "model=disk=sata-ssd"), false).unwrap();
            let said = options.to_list().unwrap();
            let mut same = MountOptions::new(true);
            same.apply(&said, false).unwrap();
            assert_eq!(same, options, "{list}: {said}");
        }
    }

    #[test]
    fn a_path_that_cannot_be_said_is_named() {
        use std::os::unix::ffi::OsStringExt;
        let path = std::ffi::OsString::from_vec(b"/d\xff".to_vec());
        let options = MountOptions { disks: vec![path.into()], ..MountOptions::new(true) };
        assert!(options.to_list().unwrap_err().contains("/d"));
    }
}
