//! Checkpoints of a clean unmount that are damaged or do not agree with the logs.

use super::*;

#[test]
fn a_damaged_checkpoint_is_dropped() {
    let sb = superblock(&PLAIN.rig());
    let header = sb.checkpoint_header * BLOCK_BYTES;
    let rig = PLAIN.rig();
    rig.flip(0, header + 33);
    repairable(&rig, "<memory>", "claims to be valid, but is damaged");
    let rig = PLAIN.rig();
    rig.flip(0, header + 16);
    repairable(&rig, "<memory>", "claims to be valid, but is damaged");
    for (i, device) in sb.devices().iter().enumerate() {
        let rig = PLAIN.rig();
        rig.flip(i, device.checkpoint_start * BLOCK_BYTES + 1);
        repairable(&rig, "", "group summaries is damaged");
        let rig = PLAIN.rig();
        rig.flip(i, (device.checkpoint_start + device.summary_blocks()) * BLOCK_BYTES + 50);
        repairable(&rig, "", "a bitmap is damaged");
    }
}

/// Changes a device's checkpoint and makes all its checksums and counts right.
fn change_checkpoint(rig: &Rig, device: usize, change: impl FnOnce(&mut [u8])) {
    let sb = superblock(rig);
    let entry: &DeviceEntry = &sb.devices()[device];
    let mut area = read_disk(rig, device, entry.checkpoint_start, entry.checkpoint_blocks);
    let (summaries, bitmaps) = area.split_at_mut((entry.summary_blocks() * BLOCK_BYTES) as usize);
    change(bitmaps);
    let mut free = 0;
    for (g, bitmap) in
        bitmaps.chunks(entry.group_blocks as usize / 8).take(entry.groups() as usize).enumerate()
    {
        let zeros: u32 = bitmap.iter().map(|b| b.count_zeros()).sum();
        free += u64::from(zeros);
        let summary = GroupSummary { free: zeros, bitmap_crc: terrace_layout::data_crc(bitmap) };
        summaries[g * 8..g * 8 + 8].copy_from_slice(summary.as_bytes());
    }
    let summaries_crc = terrace_layout::data_crc(&summaries[..entry.groups() as usize * 8]);
    write_disk(rig, device, entry.checkpoint_start, &area);
    change_header(rig, |header| {
        header.devices[device].free = free;
        header.devices[device].summaries_crc = summaries_crc;
    });
}

fn change_header(rig: &Rig, change: impl FnOnce(&mut CheckpointHeader)) {
    let at = superblock(rig).checkpoint_header * BLOCK_BYTES;
    let mut bytes = vec![0; size_of::<CheckpointHeader>()];
    rig.pm.read(at, &mut bytes);
    let mut header = CheckpointHeader::from_bytes(&bytes);
    change(&mut header);
    header.seal();
    rig.pm.write(at, header.as_bytes());
}

#[test]
fn a_checkpoint_that_disagrees_with_the_logs_is_dropped() {
    let sb = superblock(&PLAIN.rig());
    for (i, device) in sb.devices().iter().enumerate() {
        // Block `data_start` is in use: an inode table, or the first data.
        let block = device.data_start;
        let rig = PLAIN.rig();
        change_checkpoint(&rig, i, |bits| {
            assert_eq!(bits[block as usize / 8] >> (block % 8) & 1, 1);
            bits[block as usize / 8] &= !(1 << (block % 8));
        });
        repairable(&rig, "", &format!("calls blocks free that are in use: {block} "));
        // The last block is free.
        let block = device.blocks - 1;
        let rig = PLAIN.rig();
        change_checkpoint(&rig, i, |bits| {
            assert_eq!(bits[block as usize / 8] >> (block % 8) & 1, 0);
            bits[block as usize / 8] |= 1 << (block % 8);
        });
        repairable(&rig, "", &format!("keeps blocks that nobody owns: {block} "));
    }
}

#[test]
fn counts_that_do_not_hold_drop_the_checkpoint() {
    let rig = PLAIN.rig();
    change_header(&rig, |header| header.inodes += 1);
    repairable(&rig, "", "notes 12 inodes in use, but there are 11");
    let rig = PLAIN.rig();
    let at = chunk_at(&rig) + terrace_layout::CHUNK_FREE_OFFSET;
    rig.pm.store_u64(at, rig.pm.load_u64(at) - 3);
    repairable(&rig, "", "the inode table of shard 0 notes");
    let rig = PLAIN.rig();
    change_header(&rig, |header| header.devices[1].free -= 1);
    repairable(&rig, "", "free counts do not add up");
}
