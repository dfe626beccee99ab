//! The instructions that make stores to memory durable, chosen once at run time.
//!
//! A line is flushed with the gentlest instruction the CPU has (clwb keeps it cached). Bulk copies
//! stream whole lines past the cache; what they cannot stream, the unaligned edges, they store and
//! flush.

#[cfg(target_arch = "aarch64")]
use self::aarch64 as arch;
#[cfg(target_arch = "x86_64")]
use self::x86_64 as arch;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("terrace-media knows how to make memory durable on x86-64 and aarch64 only");

/// The unit of flushing. CPUs with longer lines flush some lines twice, which is harmless.
pub(crate) const LINE_BYTES: usize = 64;

/// Brings the cache line of `at` closer, if the CPU sees fit: it will be used soon.
#[inline]
pub fn prefetch<T>(at: *const T) {
    arch::prefetch(at.cast());
}

/// The instructions this CPU is to use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Persist(arch::Instructions);

impl Persist {
    pub(super) fn detect() -> Self {
        Persist(arch::Instructions::detect())
    }

    /// The name of the flush instruction.
    pub(super) fn name(self) -> &'static str {
        self.0.name()
    }

    /// Orders all earlier flushes and streamed stores of this thread before its later stores.
    #[inline]
    pub(super) fn fence(self) {
        arch::fence();
    }

    /// Starts writing back the lines that hold `len` bytes at `start`.
    ///
    /// # Safety
    /// The range must be mapped.
    #[inline]
    pub(super) unsafe fn flush(self, start: *const u8, len: usize) {
        if len == 0 {
            return;
        }
        let lead = start as usize % LINE_BYTES;
        // SAFETY: stepping back to the line's start stays on the page that holds `start`.
        let mut line = unsafe { start.sub(lead) };
        for _ in 0..(lead + len).div_ceil(LINE_BYTES) {
            // SAFETY: the line overlaps the caller's mapped range.
            unsafe { self.0.flush_line(line) };
            line = line.wrapping_add(LINE_BYTES);
        }
    }

    /// Copies `len` bytes so that they are durable after the next fence.
    ///
    /// # Safety
    /// `src` must be readable and `dst` writable for `len` bytes; they must not overlap.
    #[inline]
    pub(super) unsafe fn copy_nt(self, dst: *mut u8, src: *const u8, len: usize) {
        let Parts { head, body, tail } = parts(dst, len);
        // SAFETY: the three parts lie one after the other within the caller's ranges, and the body
        // starts at a line.
        unsafe {
            self.copy_edge(dst, src, head);
            self.0.stream_copy(dst.add(head), src.add(head), body / LINE_BYTES);
            self.copy_edge(dst.add(head + body), src.add(head + body), tail);
        }
    }

    /// Zeroes `len` bytes so that they are durable after the next fence.
    ///
    /// # Safety
    /// `dst` must be writable for `len` bytes.
    #[inline]
    pub(super) unsafe fn zero_nt(self, dst: *mut u8, len: usize) {
        const ZEROS: [u8; LINE_BYTES] = [0; LINE_BYTES];
        let Parts { head, body, tail } = parts(dst, len);
        // SAFETY: as in copy_nt; an edge is shorter than a line, so ZEROS is long enough.
        unsafe {
            self.copy_edge(dst, ZEROS.as_ptr(), head);
            self.0.stream_zero(dst.add(head), body / LINE_BYTES);
            self.copy_edge(dst.add(head + body), ZEROS.as_ptr(), tail);
        }
    }

    /// # Safety
    /// As for copy_nt.
    #[inline]
    unsafe fn copy_edge(self, dst: *mut u8, src: *const u8, len: usize) {
        if len > 0 {
            // SAFETY: the caller's ranges.
            unsafe {
                std::ptr::copy_nonoverlapping(src, dst, len);
                self.flush(dst, len);
            }
        }
    }
}

/// Copies past the processor's caches, into ordinary memory too: quicker than through them where
/// the bytes are not read again soon, because no line is fetched before it is overwritten.
#[derive(Clone, Copy, Debug)]
pub struct StreamedCopy(Persist);

impl StreamedCopy {
    /// With the instructions of this CPU.
    pub fn detect() -> Self {
        StreamedCopy(Persist::detect())
    }

    /// Copies. Other threads may be told of it after a [`StreamedCopy::fence`].
    ///
    /// # Panics
    /// If the two differ in length.
    #[inline]
    pub fn copy(self, to: &mut [u8], from: &[u8]) {
        assert_eq!(to.len(), from.len(), "a copy is as long as its original");
        // SAFETY: both are valid for that length, and an exclusive reference overlaps nothing.
        unsafe { self.0.copy_nt(to.as_mut_ptr(), from.as_ptr(), to.len()) };
    }

    /// Orders this thread's copies before its later stores.
    #[inline]
    pub fn fence(self) {
        self.0.fence();
    }
}

/// A range cut at line boundaries: bytes up to the first boundary, whole lines, and the rest.
struct Parts {
    head: usize,
    body: usize,
    tail: usize,
}

#[inline]
fn parts(dst: *const u8, len: usize) -> Parts {
    let head = (dst as usize).wrapping_neg() % LINE_BYTES;
    let head = head.min(len);
    let tail = (len - head) % LINE_BYTES;
    Parts { head, body: len - head - tail, tail }
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::asm;
    use std::arch::x86_64::{
        __cpuid_count, __m128i, __m512i, _MM_HINT_T0, _mm_loadu_si128, _mm_prefetch,
        _mm_setzero_si128, _mm_sfence, _mm_stream_si128, _mm512_loadu_si512, _mm512_setzero_si512,
        _mm512_stream_si512,
    };

    use super::LINE_BYTES;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Flush {
        Clwb,
        ClflushOpt,
        Clflush,
    }

    #[derive(Clone, Copy, Debug)]
    pub(super) struct Instructions {
        flush: Flush,
        avx512: bool,
    }

    impl Instructions {
        pub(super) fn detect() -> Self {
            const CLFLUSHOPT_BIT: u32 = 1 << 23;
            const CLWB_BIT: u32 = 1 << 24;
            #[allow(unused_unsafe, reason = "unsafe to call in older toolchains only")]
            // SAFETY: every x86-64 CPU has cpuid; leaf 7 answers zeros on CPUs that do not know it.
            let extended = unsafe { __cpuid_count(7, 0) }.ebx;
            let flush = if extended & CLWB_BIT != 0 {
                Flush::Clwb
            } else if extended & CLFLUSHOPT_BIT != 0 {
                Flush::ClflushOpt
            } else {
                Flush::Clflush
            };
            Instructions { flush, avx512: is_x86_feature_detected!("avx512f") }
        }

        pub(super) fn name(self) -> &'static str {
            match self.flush {
                Flush::Clwb => "clwb",
                Flush::ClflushOpt => "clflushopt",
                Flush::Clflush => "clflush",
            }
        }

        /// # Safety
        /// `line` must be mapped.
        #[inline]
        pub(super) unsafe fn flush_line(self, line: *const u8) {
            // SAFETY: the CPU has the chosen instruction (detect), and flushing a mapped line
            // changes no memory.
            unsafe {
                match self.flush {
                    Flush::Clwb => {
                        asm!("clwb [{}]", in(reg) line, options(nostack, preserves_flags))
                    }
                    Flush::ClflushOpt => {
                        asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags))
                    }
                    Flush::Clflush => {
                        asm!("clflush [{}]", in(reg) line, options(nostack, preserves_flags))
                    }
                }
            }
        }

        /// # Safety
        /// `dst` must start a line and be writable, `src` readable, for `lines` lines; no overlap.
        #[inline]
        pub(super) unsafe fn stream_copy(self, dst: *mut u8, src: *const u8, lines: usize) {
            // SAFETY: the caller's promise; AVX-512 is used only where detect() found it.
            unsafe {
                if self.avx512 {
                    stream_copy_avx512(dst, src, lines)
                } else {
                    stream_copy_sse2(dst, src, lines)
                }
            }
        }

        /// # Safety
        /// `dst` must start a line and be writable for `lines` lines.
        #[inline]
        pub(super) unsafe fn stream_zero(self, dst: *mut u8, lines: usize) {
            // SAFETY: as in stream_copy.
            unsafe {
                if self.avx512 {
                    stream_zero_avx512(dst, lines)
                } else {
                    stream_zero_sse2(dst, lines)
                }
            }
        }
    }

    #[inline]
    pub(super) fn prefetch(line: *const u8) {
        // SAFETY: SSE is part of x86-64; a prefetch of an address that is not mapped does nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
    }

    #[inline]
    pub(super) fn fence() {
        // SAFETY: SSE is part of x86-64.
        unsafe { _mm_sfence() };
    }

    /// # Safety
    /// As for stream_copy, and the CPU must have AVX-512F.
    #[target_feature(enable = "avx512f")]
    unsafe fn stream_copy_avx512(dst: *mut u8, src: *const u8, lines: usize) {
        for at in (0..lines).map(|line| line * LINE_BYTES) {
            // SAFETY: `at` is within both ranges, and dst + at is 64-byte aligned.
            unsafe {
                let line = _mm512_loadu_si512(src.add(at).cast::<__m512i>());
                _mm512_stream_si512(dst.add(at).cast::<__m512i>(), line);
            }
        }
    }

    /// # Safety
    /// As for stream_zero, and the CPU must have AVX-512F.
    #[target_feature(enable = "avx512f")]
    unsafe fn stream_zero_avx512(dst: *mut u8, lines: usize) {
        for at in (0..lines).map(|line| line * LINE_BYTES) {
            // SAFETY: `at` is within the range, and dst + at is 64-byte aligned.
            unsafe { _mm512_stream_si512(dst.add(at).cast::<__m512i>(), _mm512_setzero_si512()) };
        }
    }

    const WORD_BYTES: usize = size_of::<__m128i>();
    const WORDS_PER_LINE: usize = LINE_BYTES / WORD_BYTES;

    /// # Safety
    /// As for stream_copy.
    unsafe fn stream_copy_sse2(dst: *mut u8, src: *const u8, lines: usize) {
        // Line by line, which is cheaper than word by word: the compiler writes out the inner loop.
        for line in (0..lines).map(|line| line * LINE_BYTES) {
            for at in (0..WORDS_PER_LINE).map(|word| line + word * WORD_BYTES) {
                // SAFETY: `at` is within both ranges, and dst + at is 16-byte aligned. SSE2 is part
                // of x86-64.
                unsafe {
                    let word = _mm_loadu_si128(src.add(at).cast::<__m128i>());
                    _mm_stream_si128(dst.add(at).cast::<__m128i>(), word);
                }
            }
        }
    }

    /// # Safety
    /// As for stream_zero.
    unsafe fn stream_zero_sse2(dst: *mut u8, lines: usize) {
        for line in (0..lines).map(|line| line * LINE_BYTES) {
            for at in (0..WORDS_PER_LINE).map(|word| line + word * WORD_BYTES) {
                // SAFETY: `at` is within the range, and dst + at is 16-byte aligned.
                unsafe { _mm_stream_si128(dst.add(at).cast::<__m128i>(), _mm_setzero_si128()) };
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// The paths of older CPUs are tested too: each is a subset of the newer.
        #[test]
        fn every_instruction_set_copies_and_zeroes() {
            #[repr(align(64))]
            struct Lines([u8; 5 * LINE_BYTES]);
            let best = Instructions::detect();
            for instructions in [best, Instructions { flush: Flush::Clflush, avx512: false }] {
                let source: Vec<u8> = (0..200).collect();
                let mut target = Lines([0xff; 5 * LINE_BYTES]);
                let dst = target.0.as_mut_ptr();
                // SAFETY: three lines from 1 of 200 source bytes into lines 1 to 3 of five, then
                // line 3 zeroed.
                unsafe {
                    instructions.stream_copy(dst.add(LINE_BYTES), source.as_ptr().add(1), 3);
                    instructions.stream_zero(dst.add(3 * LINE_BYTES), 1);
                    instructions.flush_line(dst);
                }
                fence();
                assert_eq!(target.0[..LINE_BYTES], [0xff; LINE_BYTES]);
                assert_eq!(target.0[LINE_BYTES..3 * LINE_BYTES], source[1..1 + 2 * LINE_BYTES]);
                assert_eq!(target.0[3 * LINE_BYTES..4 * LINE_BYTES], [0; LINE_BYTES]);
                assert_eq!(target.0[4 * LINE_BYTES..], [0xff; LINE_BYTES]);
            }
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod aarch64 {
    use std::arch::asm;

    use super::LINE_BYTES;

    #[derive(Clone, Copy, Debug)]
    pub(super) struct Instructions {
        /// The CPU can clean to the point of persistence (`dc cvap`); else to the point of
        /// coherency (`dc cvac`).
        to_persistence: bool,
        /// The CPU's own line, where shorter than ours.
        step_bytes: usize,
    }

    impl Instructions {
        pub(super) fn detect() -> Self {
            const HWCAP_DCPOP: libc::c_ulong = 1 << 16;
            // SAFETY: getauxval only reads the process's auxiliary vector.
            let capabilities = unsafe { libc::getauxval(libc::AT_HWCAP) };
            let cache_type: u64;
            // SAFETY: Linux lets user space read CTR_EL0, or emulates the read.
            unsafe {
                asm!(
                    "mrs {}, ctr_el0",
                    out(reg) cache_type,
                    options(nomem, nostack, preserves_flags)
                )
            };
            // DminLine: log2 of the words (4 bytes) in the shortest data cache line.
            let line_bytes = 4usize << ((cache_type >> 16) & 0xf);
            Instructions {
                to_persistence: capabilities & HWCAP_DCPOP != 0,
                step_bytes: line_bytes.min(LINE_BYTES),
            }
        }

        pub(super) fn name(self) -> &'static str {
            if self.to_persistence { "dc cvap" } else { "dc cvac" }
        }

        /// # Safety
        /// `line` must be mapped.
        #[inline]
        pub(super) unsafe fn flush_line(self, line: *const u8) {
            for at in (0..LINE_BYTES).step_by(self.step_bytes) {
                let part = line.wrapping_add(at);
                // SAFETY: cleaning a mapped line changes no memory; dc cvap (written as the sys
                // instruction it is, so that any assembler takes it) is used only where the CPU has
                // it.
                unsafe {
                    if self.to_persistence {
                        asm!(
                            "sys #3, c7, c12, #1, {}",
                            in(reg) part,
                            options(nostack, preserves_flags)
                        );
                    } else {
                        asm!("dc cvac, {}", in(reg) part, options(nostack, preserves_flags));
                    }
                }
            }
        }

        /// # Safety
        /// `dst` must start a line and be writable, `src` readable, for `lines` lines; no overlap.
        #[inline]
        pub(super) unsafe fn stream_copy(self, dst: *mut u8, src: *const u8, lines: usize) {
            // SAFETY: the caller's promise.
            unsafe {
                std::ptr::copy_nonoverlapping(src, dst, lines * LINE_BYTES);
                self.flush_lines(dst, lines);
            }
        }

        /// # Safety
        /// `dst` must start a line and be writable for `lines` lines.
        #[inline]
        pub(super) unsafe fn stream_zero(self, dst: *mut u8, lines: usize) {
            // SAFETY: the caller's promise.
            unsafe {
                std::ptr::write_bytes(dst, 0, lines * LINE_BYTES);
                self.flush_lines(dst, lines);
            }
        }

        /// # Safety
        /// The lines must be mapped.
        unsafe fn flush_lines(self, dst: *const u8, lines: usize) {
            for line in 0..lines {
                // SAFETY: within the caller's range.
                unsafe { self.flush_line(dst.add(line * LINE_BYTES)) };
            }
        }
    }

    #[inline]
    pub(super) fn prefetch(line: *const u8) {
        // SAFETY: a prefetch of an address that is not mapped does nothing.
        unsafe {
            asm!("prfm pldl1keep, [{}]", in(reg) line, options(nostack, preserves_flags, readonly))
        };
    }

    #[inline]
    pub(super) fn fence() {
        // SAFETY: a barrier has no preconditions; it is also a compiler barrier (no nomem).
        unsafe { asm!("dsb ish", options(nostack, preserves_flags)) };
    }
}
