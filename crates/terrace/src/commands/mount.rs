//! `terrace mount`, and the daemon that serves the mount.

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rustix::io::Errno;
use rustix::process::geteuid;
use terrace_engine::{FsError, FsResult, NamedDevice, OpenOptions, Volume};
use terrace_fuse::control::{self, AddDisk};
use terrace_fuse::{Ledger, LoanSocket, MountConfig, Mounted, RingOffer, Transport, Unmounter};
use terrace_media::PmKind;

use crate::cli::MountArgs;
use crate::daemon::{self, Log, Ready};
use crate::devices::{Access, DeviceOptions, Devices, identity, refused, tell_exposure};
use crate::doctor::ring_remark;
use crate::exit::{FAILED, Usage};
use crate::keeper::{self, Cause, Role};
use crate::lend::Lend;
use crate::memory;
use crate::metrics;
use crate::options::MountOptions;
use crate::progress::Progress;
use crate::request::MountRequest;
use crate::{first_open, mounts, output, transport, wear};

/// `terrace mount`
pub fn run(args: &MountArgs, quiet: bool) -> Result<()> {
    let mut options = MountOptions::new(geteuid().is_root());
    for list in &args.options {
        options.apply(list, false).map_err(Usage::error)?;
    }
    options.disks.extend_from_slice(&args.disks);
    options.models.extend_from_slice(&args.models);
    options.log = args.log.clone().or(options.log);
    let (pm, mountpoint) = (args.pm.clone(), args.mountpoint.clone());
    mount(MountRequest { pm, mountpoint, options, foreground: args.foreground, quiet })
}

/// Mounts a volume. Returns when it serves; in the foreground, when it is unmounted.
///
/// # Errors
/// The mountpoint does not do, a device is missing, in use or damaged, or the system refuses the
/// mount.
pub fn mount(mut request: MountRequest) -> Result<()> {
    if request.options.remount {
        return remount(request);
    }
    transport::settle(&mut request.options, request.quiet)?;
    let has_keeper = has_keeper(&request.options)?;
    prepare_mountpoint(&mut request)?;
    make_absolute(&mut request)?;
    let log = match &request.options.log {
        Some(file) => Log::File(file.clone()),
        None if request.foreground => Log::Stderr,
        None => daemon::default_log(&request.mountpoint).map_or(Log::Nowhere, Log::File),
    };
    let keep = |ready: &mut Ready| match has_keeper {
        true => keeper::keep(ready, &request, &log, serve),
        false => serve(&request, &log, &mut Role::Alone(ready)),
    };
    if request.foreground {
        return keep(&mut Ready::nobody());
    }
    daemon::in_background(keep)?;
    if request.options.lend == Lend::Off {
        first_open::in_mount(&request.mountpoint);
    }
    Ok(())
}

/// Whether the mount gets a keeper: where it is not left out, and could have a successor of the
/// daemon take up all that programs wait for.
fn has_keeper(options: &MountOptions) -> Result<bool> {
    match options.keeper {
        Some(true) if options.clone_fd => {
            bail!("keeper: holds one descriptor of /dev/fuse; leave out clone_fd or keeper")
        }
        Some(true) if !transport::reaches_queues(options)? => bail!(
            "keeper: over io_uring it needs all CPUs, and a cpuset forbids some; mount with \
             transport=device, or with -o nokeeper"
        ),
        Some(wanted) => Ok(wanted),
        None => Ok(!options.clone_fd && transport::reaches_queues(options)?),
    }
}

/// Changes those of the options given that the kernel sees to, of a mount. When that lets nothing
/// be written any more, everything is on its devices.
fn remount(mut request: MountRequest) -> Result<()> {
    let mount = mounts::terrace_at(&request.mountpoint)?;
    let place = mount.mountpoint.display();
    if mount.source != request.pm && !mounts::is_of(&mount, &request.pm) {
        let (source, pm) = (mount.source.display(), request.pm.display());
        bail!(
            "{place}: the volume mounted here is {source}, not {pm}; give {source}, or the \
             mountpoint of {pm}"
        );
    }
    let status: serde_json::Value = serde_json::from_str(&control::status(&mount.mountpoint)?)?;
    wear::must_be_in_force(&request.options.wear, &status)
        .with_context(|| format!("{place}: nothing is changed"))?;
    request.options = request.options.over(&mount.options).map_err(Usage::error)?;
    let read_only = request.options.read_only;
    if let Some(reason) = status["read_only"].as_str().filter(|_| !read_only) {
        bail!(
            "{place}: its daemon cannot write ({reason}); unmount the volume, and mount it again"
        );
    }
    match terrace_fuse::remount(&mount, &config(&request, None)) {
        Err(Errno::BUSY) => {
            bail!("{place}: files are open for writing; `fuser -vm {place}` shows by whom")
        }
        Err(Errno::PERM) => {
            bail!("{place}: only root may remount; others unmount, and mount again")
        }
        result => result.with_context(|| format!("{place}: cannot be remounted"))?,
    }
    if read_only {
        control::sync(&mount.mountpoint).with_context(|| {
            format!("{place}: is read-only now, but not all of it is on its devices")
        })?;
    }
    Ok(())
}

/// Sees to it that the mountpoint is a directory on which a volume can be mounted.
fn prepare_mountpoint(request: &mut MountRequest) -> Result<()> {
    let place = request.mountpoint.display();
    if terrace_fuse::clean_dead_mount(&request.mountpoint)? {
        output::remark(
            request.quiet,
            &format!("{place}: removed the mount of a daemon that had died"),
        );
    }
    if !request.mountpoint.is_dir() {
        bail!("{place}: is not a directory; a volume is mounted on one");
    }
    request.mountpoint =
        fs::canonicalize(&request.mountpoint).with_context(|| place.to_string())?;
    Ok(())
}

/// The daemon leaves the working directory: every path must stand by itself.
fn make_absolute(request: &mut MountRequest) -> Result<()> {
    let options = &mut request.options;
    let socket = match &mut options.metrics {
        Some(metrics::Address::Socket(path)) => Some(path),
        _ => None,
    };
    let optional = options.log.iter_mut().chain(&mut options.cache_dir).chain(socket);
    let of_budgets = options.wear.iter_mut().filter_map(|budget| match &mut budget.device {
        NamedDevice::Path(path) => Some(path),
        NamedDevice::Index(_) => None,
    });
    let others = of_budgets.chain(&mut options.disks).chain([&mut request.pm]);
    for path in optional.chain(others) {
        *path = std::path::absolute(&*path)?;
    }
    Ok(())
}

/// The daemon's life: open, mount, serve, close. A signal ends it at any time, and cleanly once the
/// volume is open.
///
/// # Errors
/// The reason why it did not serve, or not until the mount's end.
pub fn serve(request: &MountRequest, log: &Log, role: &mut Role<'_>) -> Result<()> {
    let ending = Arc::new(Ending::default());
    let asked = Arc::clone(&ending);
    daemon::on_termination(move |signal| asked.ask(signal))?;
    daemon::start_log(log)?;
    let (volume, kind) = match role {
        Role::Successor(ledger, _, _, cause) => open_again(request, ledger, *cause)?,
        Role::Alone(_) | Role::First(..) => open(request, role.ledger(), false, &ending)?,
    };
    let upgrade = Some(role.upgrader());
    let direct = socket(request, &volume)?;
    let config = MountConfig { upgrade, direct, ..config(request, role.ledger()) };
    let handover = role.take_handover();
    let is_first = handover.is_none();
    let mount = || match handover {
        None => mount_first(&volume, request, &config),
        Some(handover) => {
            terrace_fuse::take_up(Arc::clone(&volume), &request.mountpoint, &config, handover)
        }
    };
    let metrics = match serve_metrics(request, &volume) {
        Err(error) if !is_first => {
            // Programs that use the mount matter more.
            tracing::error!("no metrics are served: {error:#}");
            Ok(None)
        }
        metrics => metrics,
    };
    let started = metrics.and_then(|metrics| Ok((mount()?, metrics)));
    // Metrics are served until the volume is closed.
    let (mut mounted, _metrics) = match started {
        Ok(started) => started,
        Err(error) => {
            // The error worth telling is the first one; a volume that is not closed is recovered.
            let _ = volume.close();
            return Err(error);
        }
    };
    let (pm, mountpoint) = (request.pm.display(), request.mountpoint.display());
    match is_first {
        true => {
            tracing::info!(%pm, %mountpoint, "mounted");
            tell_kind(request, kind);
            tell_transport(request, &mounted);
        }
        false => tracing::info!(%pm, %mountpoint, "the mount is served again"),
    }
    let unmounter = mounted.unmounter();
    ending.is_mounted(unmounter.clone(), Arc::clone(&volume));
    let served = role.serves(&mut mounted).inspect_err(|_| {
        // Nobody knows of the mount.
        let _ = unmounter.unmount_lazily();
    });
    let served = served.and(mounted.wait());
    let closed =
        volume.close().with_context(|| format!("{}: cannot unmount cleanly", request.pm.display()));
    tracing::info!(mountpoint = %request.mountpoint.display(), clean = closed.is_ok(), "unmounted");
    served.and(closed)
}

/// Mounts the volume, over `/dev/fuse` if the choice is the machine's and io_uring fails for
/// whatever reason.
fn mount_first(
    volume: &Arc<Volume>,
    request: &MountRequest,
    config: &MountConfig,
) -> Result<Mounted> {
    let mount = |config: &_| terrace_fuse::mount(Arc::clone(volume), &request.mountpoint, config);
    let is_choice_open = transport::takes_rings_if_it_can(config.transport);
    let error = match mount(config) {
        Err(error) if is_choice_open => error,
        mounted => return mounted,
    };
    let over_device = MountConfig { transport: Transport::Device, ..config.clone() };
    let mut mounted = mount(&over_device);
    for _ in 0..MOMENTS {
        if !mounted.as_ref().is_err_and(lacks_something) {
            break;
        }
        std::thread::sleep(MOMENT);
        mounted = mount(&over_device);
    }
    let mounted = mounted?;
    let reason = format!("its queues over io_uring failed: {}", error.root_cause());
    output::remark(request.quiet, &transport::remark(&reason));
    Ok(mounted)
}

/// The kernel takes a moment to give back what the threads had that have ended.
const MOMENT: Duration = Duration::from_millis(50);
const MOMENTS: u32 = 20;

/// Whether the system has no thread or no memory just now.
fn lacks_something(error: &anyhow::Error) -> bool {
    let cause = error.root_cause().downcast_ref::<std::io::Error>();
    let errno = cause.and_then(std::io::Error::raw_os_error);
    errno.is_some_and(|errno| [libc::EAGAIN, libc::ENOMEM].contains(&errno))
}

/// The parts that a signal ends: from the beginning of the daemon's life on, so that at no moment a
/// signal kills it.
#[derive(Default)]
struct Ending {
    /// The last signal; 0: none has come.
    signal: AtomicI32,
    mount: Mutex<Option<(Unmounter, Arc<Volume>)>>,
}

impl Ending {
    /// A signal has come. If nothing is mounted yet, the mount ends when it has begun.
    fn ask(&self, signal: i32) {
        self.signal.store(signal, Ordering::SeqCst);
        if let Some((unmounter, volume)) = &*self.mount() {
            end_mount(unmounter, volume, signal);
        }
    }

    /// The volume is mounted; a signal that came before counts now.
    fn is_mounted(&self, unmounter: Unmounter, volume: Arc<Volume>) {
        let mount = &mut *self.mount();
        match self.signal() {
            0 => {}
            signal => end_mount(&unmounter, &volume, signal),
        }
        *mount = Some((unmounter, volume));
    }

    fn mount(&self) -> MutexGuard<'_, Option<(Unmounter, Arc<Volume>)>> {
        self.mount.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn signal(&self) -> i32 {
        self.signal.load(Ordering::SeqCst)
    }

    /// Recovery takes long, and a volume that needs it loses nothing if it begins anew with the
    /// next mount.
    fn give_up_recovery(&self) {
        if self.signal() != 0 {
            output::error("a signal has ended the recovery; the next mount begins it anew");
            std::process::exit(FAILED.into());
        }
    }
}

fn serve_metrics(request: &MountRequest, volume: &Arc<Volume>) -> Result<Option<metrics::Server>> {
    let volume = Arc::clone(volume);
    let text = move || metrics::text(&volume.stats());
    request
        .options
        .metrics
        .as_ref()
        .map(|address| metrics::Server::start(address, text))
        .transpose()
}

fn config(request: &MountRequest, ledger: Option<&'static Ledger>) -> MountConfig {
    let options = &request.options;
    let of_devices = options.clone();
    MountConfig {
        fs_name: request.pm.to_string_lossy().into_owned(),
        read_only: options.read_only,
        allow_other: options.allow_other,
        default_permissions: options.default_permissions.then_some(true),
        transport: options.transport,
        queue_depth: options.queue_depth,
        threads: options.threads,
        clone_fd: options.clone_fd.then_some(true),
        durable: options.durable,
        suid: options.suid,
        dev: options.dev,
        exec: options.exec,
        ledger,
        direct: None,
        upgrade: None,
        add_disk: Some(Arc::new(move |volume, wanted| add_disk(volume, wanted, &of_devices))),
    }
}

/// The socket on which programs may ask for files.
fn socket(request: &MountRequest, volume: &Volume) -> Result<Option<LoanSocket>> {
    let options = &request.options;
    let (dir, group) = match (&options.lend, volume.lends_nothing()) {
        (Lend::Off, _) => return Ok(None),
        (_, Some(why)) => bail!("lend: {}: {why}; mount without it", request.pm.display()),
        (Lend::Owner, _) => (daemon::cache_dir(options.cache_dir.as_deref())?, None),
        (Lend::Group { name, gid }, _) => (daemon::group_dir(name, *gid)?, Some(*gid)),
    };
    let path = dir.join(format!("{}.socket", volume.status().uuid));
    Ok(Some(LoanSocket { path, group }))
}

/// Adds a disk to the mounted volume, opened as the others were.
fn add_disk(volume: &Volume, wanted: &AddDisk, options: &MountOptions) -> FsResult<u16> {
    // Names the disk, as all errors of opening one do.
    let refused = |error: anyhow::Error| FsError::with_message(libc::EINVAL, format!("{error:#}"));
    let status = volume.status();
    let member = |path: &Path| identity(path).ok();
    let known = status
        .devices
        .iter()
        .find(|device| member(Path::new(&device.path)) == member(&wanted.path));
    if let Some(known) = known {
        let path = wanted.path.display();
        return Err(refused(anyhow!("{path}: is device {} of the volume already", known.index)));
    }
    // A disk left by an addition or a removal that was cut short is nobody's. One with a member's
    // index may be a copy of that member.
    let is_member = |index| status.devices.iter().any(|device| device.index == index);
    let is_left_over = |uuid: &str, index| uuid == status.uuid && !is_member(index);
    let is_refused = Cell::new(false);
    let open = |index| {
        let disk =
            device_options(options).open_new_disk(&wanted.path, index, wanted.force, is_left_over);
        is_refused.set(disk.is_err());
        disk.map_err(refused)
    };
    volume.add_disk(wanted.tier, &open).map_err(|error| match is_refused.get() {
        true => error,
        false => error.naming(&wanted.path),
    })
}

/// How the volume's devices are opened.
fn device_options(options: &MountOptions) -> DeviceOptions<'_> {
    DeviceOptions {
        access: if options.read_only { Access::Examine } else { Access::Change },
        engine: options.engine,
        direct: options.direct,
        models: &options.models,
        may_be_shared: !options.read_only,
    }
}

/// How long a successor waits for devices: a dead daemon's requests to a disk may still be under
/// way, and keep it locked.
const DEVICES_FREE: Duration = Duration::from_secs(30);

/// Opens the volume of the daemon before this one, with the thresholds that it had. A signal that
/// comes meanwhile counts afterwards: programs wait for answers.
fn open_again(
    request: &MountRequest,
    ledger: &'static Ledger,
    cause: Cause,
) -> Result<(Arc<Volume>, PmKind)> {
    let version = env!("CARGO_PKG_VERSION");
    match cause {
        Cause::Death(signal) => {
            tracing::warn!("the daemon died of signal {signal}: another one takes its mount up");
        }
        Cause::Upgrade => tracing::info!("an upgrade: terrace {version} takes the mount up"),
        Cause::FailedUpgrade => {
            tracing::warn!("an upgrade failed: terrace {version} takes the mount up again");
        }
    }
    ledger.inherit();
    let mut request = MountRequest { quiet: true, ..request.clone() };
    if let Some(params) = terrace_fuse::kept_thresholds(ledger) {
        request.options.params = params;
    }
    let begun = Instant::now();
    loop {
        match open(&request, Some(ledger), true, &Ending::default()) {
            Err(error) if begun.elapsed() < DEVICES_FREE => {
                tracing::warn!("trying again: {error:#}");
                std::thread::sleep(Duration::from_millis(100));
            }
            opened => return opened,
        }
    }
}

/// Opens the volume; recovery happens here. `goes_on`: for a mount that a daemon has served.
fn open(
    request: &MountRequest,
    ledger: Option<&'static Ledger>,
    goes_on: bool,
    ending: &Ending,
) -> Result<(Arc<Volume>, PmKind)> {
    let options = &request.options;
    let devices = Devices::open(&request.pm, &options.disks, &device_options(options))?;
    let kind = devices.pm.kind();
    devices.paths().for_each(|path| tell_exposure(path, request.quiet));
    if options.read_only {
        daemon::tell_waiting_pages(&devices.pm, options.cache_dir.as_deref(), request.quiet);
    }
    let open = OpenOptions {
        read_only: options.read_only,
        atime: options.atime,
        durable: options.durable,
        cache_bytes: memory::cache_bytes(options.cache_bytes),
        cache_dir: Some(daemon::cache_dir(options.cache_dir.as_deref())?),
        writeback_seconds: options.writeback_seconds,
        pm_full_percent: options.pm_full_percent,
        params: options.params,
        wear: options.wear.clone(),
        goes_on,
        heritage: ledger.map(terrace_fuse::heritage),
        lends: options.lend != Lend::Off,
        loans: None,
        workers: true,
    };
    let progress = Progress::new(request.quiet);
    let recovering = |what: &str, done, total| {
        ending.give_up_recovery();
        progress.update(what, done, total);
    };
    let volume =
        Volume::open(devices.pm, devices.disks, open, &recovering).map_err(refused(&request.pm))?;
    if let Some(reason) = volume.status().read_only.filter(|_| !options.read_only) {
        tracing::error!("mounted read-only: {reason}");
    }
    Ok((volume, kind))
}

fn tell_kind(request: &MountRequest, kind: PmKind) {
    let pm = request.pm.display();
    let remark = match kind {
        PmKind::Dax => return,
        PmKind::Emulated => format!(
            "note: {pm} is memory of this machine: contents are lost at reboot; unmount and \
             `terrace save` before, `terrace restore` after"
        ),
        PmKind::Msync => {
            format!("note: {pm} is a file on an ordinary file system: durable, but slow")
        }
    };
    output::remark(request.quiet, &remark);
}

/// Says so if messages would come over io_uring, but the kernel does not offer it.
fn tell_transport(request: &MountRequest, mounted: &Mounted) {
    if !mounted.is_over_io_uring()
        && let Some(remark) = ring_remark(request.options.transport, RingOffer::here())
    {
        output::remark(request.quiet, &remark);
    }
}

/// Ends the mount on a signal. Where files are in use, the mount is hidden at once and ends with
/// its last user; what was written until now is brought to its devices, since the machine may be
/// going down.
fn end_mount(unmounter: &Unmounter, volume: &Volume, signal: i32) {
    tracing::info!(signal, "unmounting");
    let Err(busy) = unmounter.unmount() else {
        return;
    };
    match unmounter.unmount_lazily() {
        Ok(()) => tracing::warn!("{busy:#}; the mount ends with its last user"),
        Err(error) => tracing::error!("{error:#}"),
    }
    if let Err(error) = volume.sync() {
        tracing::error!("cannot write everything back: {error}");
    }
}
