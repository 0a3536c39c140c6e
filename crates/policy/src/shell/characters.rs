//! Characters that make a script look like another one.

/// Whether a script contains characters that are invisible, or that a terminal or a parser may
/// mistake for others.
pub(super) fn strange(script: &str) -> bool {
    script.chars().any(|character| match character {
        '\n' | '\t' => false,
        _ if character.is_ascii() => character.is_control(),
        _ => {
            character.is_control()
                || character.is_whitespace()
                || matches!(
                    u32::from(character),
                    0xAD | 0x34F
                        | 0x61C
                        | 0x115F..=0x1160
                        | 0x17B4..=0x17B5
                        | 0x180B..=0x180F
                        | 0x200B..=0x200F
                        | 0x2028..=0x202E
                        | 0x2060..=0x206F
                        | 0x3164
                        | 0xFE00..=0xFE0F
                        | 0xFEFF
                        | 0xFFA0
                        | 0xFFF0..=0xFFFB
                        | 0xE0000..=0xE0FFF
                )
        }
    })
}
