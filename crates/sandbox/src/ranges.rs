//! The part of a system call filter that looks only at the call's number, as ranges of numbers.
//!
//! The compiler we use compares one number after the other. When such a program is installed, the
//! kernel walks it once for every system call, and with three hundred comparisons that takes a
//! millisecond, as long as everything else the sandbox does. Neighbouring numbers get the same
//! verdict, so fifty ranges suffice.

use std::collections::BTreeMap;

/// One instruction, as the kernel reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Instruction {
    pub(super) code: u16,
    pub(super) if_true: u8,
    pub(super) if_false: u8,
    pub(super) value: u32,
}

/// Loads a word of the data about the call.
const LOAD: u16 = 0x20;
/// Jumps always.
const JUMP: u16 = 0x05;
/// Jumps if the word is this value.
const JUMP_EQUAL: u16 = 0x15;
/// Jumps if the word is greater.
const JUMP_GREATER: u16 = 0x25;
/// Jumps if the word is greater or the same.
const JUMP_AT_LEAST: u16 = 0x35;
/// Ends with a verdict.
pub(super) const RETURN: u16 = 0x06;

/// The offset of the call's number.
const NUMBER: u32 = 0;
/// The offset of the calling convention.
const ARCHITECTURE: u32 = 4;

/// The first and the last number of each range, and the verdict for it.
type Ranges = Vec<(u32, u32, u32)>;

/// Puts verdicts by number before a program that decides about all other calls, and about every
/// call of another architecture.
pub(super) fn before(
    verdicts: &BTreeMap<u32, u32>,
    architecture: u32,
    rest: &[Instruction],
) -> Vec<Instruction> {
    let ranges = ranges(verdicts);
    let mut program = vec![
        load(ARCHITECTURE),
        jump(JUMP_EQUAL, architecture, 1, 0),
        // Skips loading the number and the ranges.
        always(1 + RANGE * ranges.len()),
        load(NUMBER),
    ];
    let count = ranges.len();
    for (index, (first, last, verdict)) in ranges.into_iter().enumerate() {
        let after = RANGE * (count - index - 1);
        program.extend([
            jump(JUMP_GREATER, last, 3, 0),
            jump(JUMP_AT_LEAST, first, 1, 0),
            // Smaller than every number in the remaining ranges.
            always(1 + after),
            give(verdict),
        ]);
    }
    program.extend_from_slice(rest);
    program
}

/// Instructions of one range.
const RANGE: usize = 4;

fn ranges(verdicts: &BTreeMap<u32, u32>) -> Ranges {
    let mut ranges = Ranges::new();
    for (number, verdict) in verdicts {
        match ranges.last_mut() {
            Some((_, last, same)) if *last + 1 == *number && same == verdict => *last = *number,
            Some(_) | None => ranges.push((*number, *number, *verdict)),
        }
    }
    ranges
}

fn load(offset: u32) -> Instruction {
    jump(LOAD, offset, 0, 0)
}

fn give(verdict: u32) -> Instruction {
    jump(RETURN, verdict, 0, 0)
}

fn always(distance: usize) -> Instruction {
    // A program is at most 4096 instructions long.
    jump(JUMP, u32::try_from(distance).unwrap_or(u32::MAX), 0, 0)
}

fn jump(code: u16, value: u32, if_true: u8, if_false: u8) -> Instruction {
    Instruction {
        code,
        if_true,
        if_false,
        value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: u32 = 99;

    /// Runs a program as the kernel does.
    fn verdict(program: &[Instruction], architecture: u32, number: u32) -> u32 {
        let (mut at, mut word) = (0, 0);
        loop {
            let instruction = program[at];
            at += 1;
            let took = match instruction.code {
                LOAD if instruction.value == NUMBER => {
                    word = number;
                    0
                }
                LOAD => {
                    word = architecture;
                    0
                }
                JUMP => instruction.value,
                RETURN => return instruction.value,
                code => {
                    let holds = match code {
                        JUMP_EQUAL => word == instruction.value,
                        JUMP_GREATER => word > instruction.value,
                        JUMP_AT_LEAST => word >= instruction.value,
                        _ => panic!("{instruction:?}"),
                    };
                    u32::from(if holds {
                        instruction.if_true
                    } else {
                        instruction.if_false
                    })
                }
            };
            at += took as usize;
        }
    }

    #[test]
    fn every_number_gets_its_verdict_and_all_others_the_rest() {
        let verdicts = BTreeMap::from([
            (0, 1),
            (1, 1),
            (2, 1),
            (4, 1),
            (5, 2),
            (6, 2),
            (100, 1),
            (451, 2),
        ]);
        let program = before(&verdicts, 7, &[give(REST)]);
        for number in (0..600).chain([0x4000_0000, 0x4000_0001, u32::MAX]) {
            let expect = verdicts.get(&number).copied().unwrap_or(REST);
            assert_eq!(verdict(&program, 7, number), expect, "{number}");
            assert_eq!(verdict(&program, 8, number), REST, "{number}");
        }
    }
}
