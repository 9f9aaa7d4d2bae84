//! The instructions that go through a table to their own library.

use core::ops::Range;

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, OpKind, Register};

use crate::frames::Bytes;
use crate::slots::Slots;

/// Opcodes of `mov memory, register` and of `lea`.
const MOV: u8 = 0x8b;
const LEA: u8 = 0x8d;

/// An instruction that can be bound directly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Where its operand of four bytes is, which is the end of it, from the begin of the code.
    pub operand: usize,
    /// The distance that belongs there.
    pub distance: i32,
    /// Whether it is a `mov` that becomes `lea`.
    pub is_address: bool,
}

impl Site {
    /// The first and the last byte of what [`Site::bind`] writes, from the begin of the code.
    #[must_use]
    pub fn written(&self) -> [usize; 2] {
        [if self.is_address { self.operand - 2 } else { self.operand }, self.operand + 3]
    }

    /// Writes it.
    ///
    /// # Panics
    /// If `code` is shorter than the code in which it was found.
    pub fn bind(&self, code: &mut [u8]) {
        code[self.operand..self.operand + 4].copy_from_slice(&self.distance.to_le_bytes());
        if self.is_address {
            code[self.operand - 2] = LEA;
        }
    }
}

/// All of the functions' sites. A function that leaves the code, or has an instruction that is not known, has none.
#[must_use]
pub fn sites(code: Bytes, functions: &[Range<u64>], slots: &Slots) -> Vec<Site> {
    let mut found = Vec::new();
    for function in functions {
        let before = found.len();
        if add_sites(code, function, slots, &mut found).is_none() {
            found.truncate(before);
        }
    }
    found
}

fn add_sites(code: Bytes, function: &Range<u64>, slots: &Slots, found: &mut Vec<Site>) -> Option<()> {
    let offset = |address: u64| usize::try_from(address.checked_sub(code.address)?).ok();
    let body = code.bytes.get(offset(function.start)?..offset(function.end)?)?;
    let mut decoder = Decoder::with_ip(64, body, function.start, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            return None;
        }
        let Some((target, is_address)) = target(code, &instruction, slots) else { continue };
        let Ok(distance) = i32::try_from(target.wrapping_sub(instruction.next_ip()) as i64) else { continue };
        found.push(Site { operand: offset(instruction.next_ip())? - 4, distance, is_address });
    }
    Some(())
}

/// What an instruction reaches through a table, and whether it takes that as an address.
fn target(code: Bytes, instruction: &Instruction, slots: &Slots) -> Option<(u64, bool)> {
    let branches = matches!(instruction.code(), Code::Call_rel32_64 | Code::Jmp_rel32_64);
    if branches && instruction.op0_kind() == OpKind::NearBranch64 {
        return Some((through_stub(code, instruction.near_branch_target(), slots)?, false));
    }
    // A prefix of the register, the opcode, the operands' byte, a distance: anything more is something else.
    let loads =
        instruction.code() == Code::Mov_r64_rm64 && instruction.len() == 7 && instruction.is_ip_rel_memory_operand();
    if loads && instruction.segment_prefix() == Register::None {
        let at = usize::try_from(instruction.ip() - code.address).ok()?;
        return (code.bytes.get(at + 1) == Some(&MOV))
            .then_some((slots.value(instruction.ip_rel_memory_address())?, true));
    }
    None
}

/// Where a stub of the procedure linkage table jumps to: `jmp *slot(%rip)`, with `endbr64` before it where branches are tracked.
fn through_stub(code: Bytes, stub: u64, slots: &Slots) -> Option<u64> {
    const ENDBR64: u32 = u32::from_le_bytes([0xf3, 0x0f, 0x1e, 0xfa]);
    const JUMP: u32 = u32::from_le_bytes([0xff, 0x25, 0, 0]);
    let jump = if code.word(stub)? == ENDBR64 { stub + 4 } else { stub };
    let is_jump = code.word(jump)? & 0xffff == JUMP;
    slots.value(code.distance(jump + 2, jump + 6).filter(|_| is_jump)?)
}
