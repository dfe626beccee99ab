//! Structures on media as text, for people who look into a volume. Nothing is stored; damage is
//! shown, not refused.

use std::io::Write;

use terrace_layout::{
    BLOCK_BYTES, BlockAddr, CHECKPOINT_VALID, CRC_BLOCKS, CRC_COMMIT, CRC_ENTRY, CRC_NONE,
    CRC_SLOTS, CheckedPtr, CheckpointHeader, HEAD_OFFSET, INCOMPAT_PM_DATA_CRC, InodeRecord,
    LogEntry, MediaStruct, SUPERBLOCK_BLOCKS, Stamp, Superblock, TAIL_OFFSET, Tail,
    WRITE_UNWRITTEN, WriteEntry,
};
use terrace_media::{Disk, Pm};
use terrace_policy::Rule;
use terrace_store::checkpoint;
use terrace_store::error::{FsError, FsResult};
use terrace_store::file::{BLOCK, read_write_entry};
use terrace_store::itable::RecordState;
use terrace_store::log::{Log, LogMedia, position_text};
use terrace_store::superblock::{Disks, format_text, uuid_text};
use terrace_store::sync::Arc;

use crate::base::types::{Ino, Time};
use crate::base::words::counted;
use crate::inode::resident::{Body, Inner};
use crate::mount::devices::match_present_devices;
use crate::mount::offline::{Offline, journal, volume_on};

type Out<'a> = &'a mut dyn Write;

/// Prints PM's superblock with its device table, both copies' state, shards with their journals,
/// and the checkpoint.
///
/// # Errors
/// PM holds no volume that can be read; `out` fails.
pub fn dump_superblock(pm: &Pm, out: &mut dyn Write) -> FsResult<()> {
    let sb = volume_on(pm)?;
    writeln!(out, "volume           {}", uuid_text(&sb))?;
    writeln!(out, "format           {}", format_text(&sb))?;
    writeln!(
        out,
        "features         compat {:#x}, ro-compat {:#x}, incompat {:#x}",
        sb.compat, sb.ro_compat, sb.incompat
    )?;
    let checksums = if sb.incompat & INCOMPAT_PM_DATA_CRC != 0 { "yes" } else { "no" };
    writeln!(out, "PM checksums     {checksums}")?;
    writeln!(out, "created          {}", time(sb.created_ns))?;
    writeln!(out, "sequence         {}", sb.sequence)?;
    writeln!(out, "mount epoch      {}", sb.mount_epoch)?;
    writeln!(out, "block size       {}", sb.block_bytes)?;
    writeln!(out, "blocks           {}", sb.blocks)?;
    for copy in 0..SUPERBLOCK_BLOCKS {
        writeln!(out, "copy {copy}           {}", superblock_copy(pm, copy))?;
    }
    dump_devices(&sb, out)?;
    dump_shards(pm, &sb, out)?;
    dump_checkpoint(pm, &sb, out)
}

fn superblock_copy(pm: &Pm, copy: u64) -> String {
    let mut bytes = [0u8; BLOCK];
    pm.read(copy * BLOCK_BYTES, &mut bytes);
    match Superblock::decode(&bytes) {
        Ok(Some(sb)) => format!("valid, sequence {}", sb.sequence),
        Ok(None) => "DAMAGED: no superblock".into(),
        Err(error) => format!("DAMAGED: {error}"),
    }
}

fn dump_devices(sb: &Superblock, out: Out<'_>) -> FsResult<()> {
    for d in sb.present() {
        writeln!(out, "device {}", d.index)?;
        writeln!(out, "  path           {}", text(d.path()))?;
        writeln!(out, "  tier           {}", d.tier)?;
        writeln!(out, "  blocks         {}", d.blocks)?;
        writeln!(out, "  group blocks   {}", d.group_blocks)?;
        writeln!(
            out,
            "  checkpoint     blocks {} to {}",
            d.checkpoint_start,
            d.checkpoint_start + d.checkpoint_blocks.saturating_sub(1)
        )?;
        writeln!(out, "  data           from block {}", d.data_start)?;
    }
    Ok(())
}

fn dump_shards(pm: &Pm, sb: &Superblock, out: Out<'_>) -> FsResult<()> {
    let offline = Offline::load(pm, sb);
    let mut tables = offline.tables.iter();
    for shard in 0..sb.shards {
        writeln!(out, "shard {shard} (block {})", sb.shards_start + u64::from(shard))?;
        match journal(sb, shard).pending(pm) {
            Ok(None) => writeln!(out, "  journal        empty")?,
            Ok(Some(words)) => {
                writeln!(out, "  journal        committed, {} words", words.len())?;
                for word in words {
                    writeln!(out, "    byte {}: {:#018x}", word.at, word.value)?;
                }
            }
            Err(error) => writeln!(out, "  journal        DAMAGED: {error}")?,
        }
        if !offline.has_table(shard) {
            writeln!(out, "  inode table    DAMAGED: {}", offline.damage[&shard])?;
            continue;
        }
        let table = tables.next().expect("one per shard that has a table");
        let (records, free) = table.counts();
        writeln!(out, "  inode table    {records} records, {free} free at the last clean unmount")?;
        for run in table.runs() {
            writeln!(out, "    blocks {} to {}", run.start, run.start + run.len - 1)?;
        }
    }
    Ok(())
}

fn dump_checkpoint(pm: &Pm, sb: &Superblock, out: Out<'_>) -> FsResult<()> {
    writeln!(out, "checkpoint (block {})", sb.checkpoint_header)?;
    let mut bytes = [0u8; size_of::<CheckpointHeader>()];
    pm.read(sb.checkpoint_header * BLOCK_BYTES, &mut bytes);
    let header = CheckpointHeader::from_bytes(&bytes);
    if checkpoint::usable_header(pm, sb).is_none() {
        let state = match header.valid {
            CHECKPOINT_VALID if header.mount_epoch != sb.mount_epoch => {
                "STALE: it was written by another mount"
            }
            CHECKPOINT_VALID => "DAMAGED: its checksum does not match",
            _ => "none: the volume is mounted or needs recovery",
        };
        writeln!(out, "  state          {state}")?;
        return Ok(());
    }
    writeln!(out, "  state          valid: the volume was unmounted cleanly")?;
    writeln!(out, "  mount epoch    {}", header.mount_epoch)?;
    writeln!(out, "  inodes         {}", header.inodes)?;
    for device in sb.present() {
        let free = header.devices[usize::from(device.index)].free;
        writeln!(out, "  device {}       {free} of {} blocks free", device.index, device.blocks)?;
    }
    Ok(())
}

/// Prints an inode: its record, what its log says, its extents; `with_log`: every entry of the log.
/// Of `disks` those of the volume are read if a part of the log lies there.
///
/// # Errors
/// PM holds no volume that can be read; the inode number lies beyond the tables; `out` fails.
/// Damage to the inode is printed.
pub fn dump_inode(
    pm: &Arc<Pm>,
    disks: &[Arc<dyn Disk>],
    ino: Ino,
    with_log: bool,
    out: &mut dyn Write,
) -> FsResult<()> {
    let (sb, disks) = match disks {
        [] => (volume_on(pm)?, Disks::new()),
        // Without them PM still tells most.
        disks => match_present_devices(pm, disks.to_vec())
            .or_else(|_| volume_on(pm).map(|sb| (sb, Disks::new())))?,
    };
    let offline = Offline::load(pm, &sb);
    let Some(at) = offline.locate(ino) else {
        let why = match offline.damage_to(ino) {
            Some(error) => format!("its table cannot be read: {error}"),
            None => "no inode table has a record for it".into(),
        };
        return Err(FsError::with_message(libc::ENOENT, why));
    };
    let state = offline.unfinished().record_state(pm, at, ino);
    dump_record(pm, at, state, out)?;
    if offline.pending.contains_key(&(at + TAIL_OFFSET))
        || offline.pending.contains_key(&(at + HEAD_OFFSET))
    {
        writeln!(
            out,
            "pending          a committed journal record changes its log; shown is what it makes \
             of it"
        )?;
    }
    let RecordState::Used(record) = state else {
        return Ok(());
    };
    let media = offline.media(pm, &disks);
    match Inner::load(media, at, &record, Some(offline.stamp)) {
        Ok(inner) => dump_state(pm, &sb, &inner, out)?,
        Err(error) => writeln!(out, "DAMAGED          {error}")?,
    }
    if with_log { dump_log(media, at, &record, offline.stamp, out) } else { Ok(()) }
}

fn dump_record(pm: &Pm, at: u64, state: RecordState, out: Out<'_>) -> FsResult<()> {
    let mut bytes = [0u8; size_of::<InodeRecord>()];
    pm.read(at, &mut bytes);
    let stored = InodeRecord::from_bytes(&bytes);
    let (state, r) = match state {
        RecordState::Free => ("free", stored),
        RecordState::Used(record) => ("in use", record),
        RecordState::Damaged => ("DAMAGED: its checksum does not match", stored),
    };
    writeln!(out, "record           at byte {at}, {state}")?;
    writeln!(out, "inode            {}", r.ino)?;
    writeln!(out, "generation       {}", r.generation)?;
    writeln!(out, "kind             {}", kind_name(r.kind))?;
    writeln!(
        out,
        "created          {}, mode {:04o}, owner {}:{}",
        time(r.created_ns),
        r.mode,
        r.uid,
        r.gid
    )?;
    writeln!(
        out,
        "rdev             {}:{}",
        libc::major(r.rdev.into()),
        libc::minor(r.rdev.into())
    )?;
    match CheckedPtr(r.head).get() {
        Ok(None) => writeln!(out, "head             none")?,
        Ok(Some((addr, dropped))) => {
            let inline = if dropped { ", inline slots dropped" } else { "" };
            writeln!(out, "head             block {addr:?}{inline}")?;
        }
        Err(error) => writeln!(out, "head             DAMAGED: {error}")?,
    }
    match Tail(r.tail).get() {
        Ok((byte, generation)) => {
            writeln!(out, "tail             byte {byte}, generation {generation}")?
        }
        Err(_) if r.state == terrace_layout::INODE_FREE => {
            writeln!(out, "tail             {:#x}", r.tail)?
        }
        Err(error) => writeln!(out, "tail             DAMAGED: {error}")?,
    }
    Ok(())
}

fn kind_name(kind: u8) -> String {
    match crate::base::types::FileKind::from_mode(u32::from(kind) << 12) {
        Some(kind) => format!("{kind:?}").to_lowercase(),
        None => format!("none ({kind:#x})"),
    }
}

fn dump_state(pm: &Pm, sb: &Superblock, inner: &Inner, out: Out<'_>) -> FsResult<()> {
    let meta = &inner.meta;
    writeln!(out, "mode             {:04o}", meta.mode)?;
    writeln!(out, "owner            {}:{}", meta.uid, meta.gid)?;
    writeln!(out, "links            {}", meta.nlink)?;
    writeln!(out, "accessed         {}", time(meta.atime.0))?;
    writeln!(out, "modified         {}", time(inner.mtime().0))?;
    writeln!(out, "changed          {}", time(meta.ctime.0))?;
    let pages: Vec<String> = inner.log.pages().map(|b| b.to_string()).collect();
    writeln!(
        out,
        "log pages        {} ({})",
        pages.len(),
        if pages.is_empty() { "none".into() } else { pages.join(", ") }
    )?;
    if let Some(archive) = inner.log.archive() {
        writeln!(out, "log archive      {} from {:?}", blocks(archive.blocks()), archive.addr)?;
    }
    for (name, xattr) in &inner.xattrs {
        let place = match xattr.entry.address {
            0 => format!("in the log entry at {}", position_text(xattr.position)),
            address => format!("at block {:?}", BlockAddr(address)),
        };
        writeln!(out, "xattr            {}: {} bytes {place}", text(name), xattr.entry.value_len)?;
    }
    match &inner.body {
        Body::File(file) => {
            writeln!(out, "size             {}", file.size)?;
            writeln!(out, "extents          {} with their checksums", blocks(file.index.blocks()))?;
            let mut extents: Vec<_> = file.index.iter().collect();
            extents.sort_unstable_by_key(|&(block, _)| block);
            for (block, e) in extents {
                let entry = read_write_entry(inner.log.entries(pm), e.entry())?;
                let device =
                    sb.devices().get(usize::from(e.addr.device())).map(|d| d.path().to_vec());
                writeln!(
                    out,
                    "  file blocks {block} to {}: {:?} ({}), entry at {}{}, checksums {}",
                    block + u64::from(e.blocks) - 1,
                    e.addr,
                    device.map_or("no such device".into(), |path| text(&path)),
                    position_text(e.entry()),
                    if e.unwritten() { ", unwritten" } else { "" },
                    checksums(&entry)
                )?;
            }
        }
        Body::Dir(dir) => {
            writeln!(out, "entries          {}, {} of them directories", dir.len(), dir.subdirs())?;
            for (cookie, d) in dir.from(0) {
                writeln!(
                    out,
                    "  {cookie}: {} -> inode {} generation {}, {:?}",
                    text(&d.name),
                    d.ino.0,
                    d.generation,
                    d.kind
                )?;
            }
        }
        Body::Symlink { target, .. } => writeln!(out, "target           {}", text(target))?,
        Body::Special { .. } => {}
    }
    Ok(())
}

fn blocks(count: impl Into<u64>) -> String {
    counted(count.into(), "block", "blocks")
}

fn checksums(entry: &WriteEntry) -> String {
    match entry.crc_form {
        CRC_NONE => "none".into(),
        CRC_COMMIT => "of the data when committed".into(),
        CRC_ENTRY => "in the entry".into(),
        CRC_SLOTS => "behind the entry".into(),
        CRC_BLOCKS => {
            format!(
                "in {} from {:?}, {} skipped",
                blocks(entry.crcs[1]),
                BlockAddr(entry.crc_address),
                entry.crcs[0]
            )
        }
        form => format!("of unknown form {form}"),
    }
}

fn dump_log(
    media: LogMedia<'_>,
    at: u64,
    record: &InodeRecord,
    stamp: Stamp,
    out: Out<'_>,
) -> FsResult<()> {
    writeln!(out, "log")?;
    let read = Log::load(media, at, record, Some(stamp), &mut |_, position, entry| {
        writeln!(out, "  {}: {}", position_text(position), entry_text(&entry))?;
        Ok(())
    });
    match read {
        Err(error) => writeln!(out, "  DAMAGED: {error}")?,
        Ok(_) => writeln!(out, "  end")?,
    }
    Ok(())
}

fn entry_text(entry: &LogEntry<'_>) -> String {
    match entry {
        LogEntry::Write(e, _) => format!(
            "{}: file block {}, {} at {:?}{}, size {}, counter {}, rule {}, checksums {}, \
             modified {}",
            if e.is_move() { "move" } else { "write" },
            e.file_block,
            blocks(e.blocks),
            BlockAddr(e.address),
            if e.flags & WRITE_UNWRITTEN != 0 { ", unwritten" } else { "" },
            e.size,
            e.history().counter,
            Rule::of_number(e.history().rule).name(),
            checksums(e),
            time(e.mtime_ns)
        ),
        LogEntry::Append(e) => {
            format!(
                "append: size {}, block {:?}, modified {}",
                e.size,
                BlockAddr(e.address),
                time(e.mtime_ns)
            )
        }
        LogEntry::Patch(e, _) => {
            format!("patch: offset {}, {} bytes, modified {}", e.offset, e.len, time(e.mtime_ns))
        }
        LogEntry::SetSize(e) => format!("set size: {}, modified {}", e.size, time(e.mtime_ns)),
        LogEntry::Hole(e) => format!(
            "hole: file block {}, {}, size {}, modified {}",
            e.file_block,
            blocks(e.blocks),
            e.size,
            time(e.mtime_ns)
        ),
        LogEntry::Attr(e) => format!(
            "attributes: mode {:04o}, owner {}:{}, links {}, accessed {}, modified {}, changed {}",
            e.mode,
            e.uid,
            e.gid,
            e.nlink,
            time(e.atime_ns),
            time(e.mtime_ns),
            time(e.ctime_ns)
        ),
        LogEntry::XattrSet(e, name, _) => {
            format!(
                "set xattr: {}, {} bytes, changed {}",
                text(name),
                e.value_len,
                time(e.ctime_ns)
            )
        }
        LogEntry::XattrRemove(e, name) => {
            format!("remove xattr: {}, changed {}", text(name), time(e.ctime_ns))
        }
        LogEntry::DentryAdd(e, name) => format!(
            "add name: {} -> inode {} generation {}, {}, cookie {}, modified {}",
            text(name),
            e.ino,
            e.generation,
            kind_name(e.file_type),
            e.cookie,
            time(e.mtime_ns)
        ),
        LogEntry::DentryRemove(e) => {
            format!("remove name: cookie {}, modified {}", e.cookie, time(e.mtime_ns))
        }
        LogEntry::Target(e, piece) => format!("target: offset {}, {}", e.offset, text(piece)),
        LogEntry::Pad => "pad".into(),
        LogEntry::Archive(e) => {
            format!("archive: {} slots from block {:?}", e.entry_slots, BlockAddr(e.address))
        }
    }
}

/// Names as text: what is not printable is escaped, so that a terminal shows it and nothing more.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).escape_debug().to_string()
}

fn time(ns: i64) -> String {
    let (seconds, nanoseconds) = Time(ns).parts();
    format!("{seconds}.{nanoseconds:09}")
}
