//! What the names of signs stand for, as fonts name them.

use std::{collections::BTreeMap, sync::LazyLock};

/// The longest name that is looked at.
const MAX_NAME: usize = 64;

/// Letters with marks: the name of the mark, then each letter and the letter with it.
const MARKED: &[(&str, &str)] = &[
    ("acute", "AÁEÉIÍOÓUÚYÝaáeéiíoóuúyýCĆcćLĹlĺNŃnńRŔrŕSŚsśZŹzź"),
    ("grave", "AÀEÈIÌOÒUÙaàeèiìoòuù"),
    (
        "circumflex",
        "AÂEÊIÎOÔUÛaâeêiîoôuûCĈcĉGĜgĝHĤhĥJĴjĵSŜsŝWŴwŵYŶyŷ",
    ),
    ("dieresis", "AÄEËIÏOÖUÜYŸaäeëiïoöuüyÿ"),
    ("tilde", "AÃNÑOÕaãnñoõIĨiĩUŨuũ"),
    ("ring", "AÅaåUŮuů"),
    ("caron", "CČcčDĎdďEĚeěNŇnňRŘrřSŠsšTŤtťZŽzžLĽlľGǦgǧ"),
    ("cedilla", "CÇcçSŞsşTŢtţ"),
    ("commaaccent", "GĢgģKĶkķLĻlļNŅnņRŖrŗTŢtţSȘsș"),
    ("ogonek", "AĄaąEĘeęIĮiįUŲuų"),
    ("breve", "AĂaăGĞgğUŬuŭEĔeĕIĬiĭOŎoŏ"),
    ("macron", "AĀaāEĒeēIĪiīOŌoōUŪuū"),
    ("dotaccent", "CĊcċEĖeėGĠgġIİZŻzż"),
    ("hungarumlaut", "OŐoőUŰuű"),
    ("slash", "OØoøLŁlł"),
];

/// Greek letters by their names; the capital one is named with a capital.
const GREEK: &[(&str, char, char)] = &[
    ("alpha", 'α', 'Α'),
    ("beta", 'β', 'Β'),
    ("gamma", 'γ', 'Γ'),
    ("delta", 'δ', 'Δ'),
    ("epsilon", 'ε', 'Ε'),
    ("zeta", 'ζ', 'Ζ'),
    ("eta", 'η', 'Η'),
    ("theta", 'θ', 'Θ'),
    ("iota", 'ι', 'Ι'),
    ("kappa", 'κ', 'Κ'),
    ("lambda", 'λ', 'Λ'),
    ("mu", 'μ', 'Μ'),
    ("nu", 'ν', 'Ν'),
    ("xi", 'ξ', 'Ξ'),
    ("omicron", 'ο', 'Ο'),
    ("pi", 'π', 'Π'),
    ("rho", 'ρ', 'Ρ'),
    ("sigma", 'σ', 'Σ'),
    ("tau", 'τ', 'Τ'),
    ("upsilon", 'υ', 'Υ'),
    ("phi", 'φ', 'Φ'),
    ("chi", 'χ', 'Χ'),
    ("psi", 'ψ', 'Ψ'),
    ("omega", 'ω', 'Ω'),
];

/// All other names: what each stands for, by lines.
const NAMES: &str = "
    exclam ! quotedbl \" numbersign # dollar $
    percent % ampersand & quotesingle ' quoteright ’ quoteleft ‘ parenleft ( parenright ) asterisk *
    plus + comma , hyphen - sfthyphen - minus − period . slash / zero 0 one 1 two 2 three 3 four 4
    five 5 six 6 seven 7 eight 8 nine 9 colon : semicolon ; less < equal = greater > question ? at @
    bracketleft [ backslash \\ bracketright ] asciicircum ^ underscore _ grave ` braceleft { bar |
    braceright } asciitilde ~ exclamdown ¡ cent ¢ sterling £ currency ¤ yen ¥ brokenbar ¦ section §
    dieresis ¨ copyright © ordfeminine ª guillemotleft « guillemotright » logicalnot ¬ registered ®
    macron ¯ degree ° plusminus ± twosuperior ² threesuperior ³ acute ´ paragraph ¶ periodcentered ·
    middot · cedilla ¸ onesuperior ¹ ordmasculine º onequarter ¼ onehalf ½ threequarters ¾
    questiondown ¿ AE Æ Eth Ð multiply × Thorn Þ germandbls ß ae æ eth ð divide ÷ thorn þ OE Œ oe œ
    florin ƒ fraction ⁄ dotlessi ı dotlessj ȷ circumflex ˆ tilde ˜ caron ˇ breve ˘ dotaccent ˙ ring ˚
    ogonek ˛ hungarumlaut ˝ endash – emdash — quotesinglbase ‚ quotedblleft “ quotedblright ”
    quotedblbase „ dagger † daggerdbl ‡ bullet • ellipsis … perthousand ‰ guilsinglleft ‹
    guilsinglright › Euro € euro € trademark ™ fi fi fl fl ff ff ffi ffi ffl ffl f_i fi f_l fl
    Dcroat Đ dcroat đ Hbar Ħ hbar ħ Tbar Ŧ tbar ŧ Eng Ŋ eng ŋ kgreenlandic ĸ Scedilla Ş scedilla ş
    IJ IJ ij ij longs ſ afii10017 А afii10018 Б sigma1 ς theta1 ϑ phi1 φ omega1 ϖ Upsilon1 ϒ
    epsilon1 ϵ vartheta ϑ varphi ϕ varpi ϖ varrho ϱ varsigma ς mu1 µ
    arrowleft ← arrowup ↑ arrowright → arrowdown ↓ arrowboth ↔ arrowupdn ↕ arrowdblleft ⇐
    arrowdblup ⇑ arrowdblright ⇒ arrowdbldown ⇓ arrowdblboth ⇔ carriagereturn ↵ mapsto ↦
    universal ∀ partialdiff ∂ existential ∃ emptyset ∅ increment ∆ gradient ∇ element ∈
    notelement ∉ suchthat ∋ product ∏ summation ∑ asteriskmath ∗ radical √ proportional ∝
    infinity ∞ angle ∠ logicaland ∧ logicalor ∨ intersection ∩ union ∪ integral ∫ therefore ∴
    similar ∼ congruent ≅ approxequal ≈ notequal ≠ equivalence ≡ lessequal ≤ greaterequal ≥
    propersubset ⊂ propersuperset ⊃ notsubset ⊄ reflexsubset ⊆ reflexsuperset ⊇ circleplus ⊕
    circlemultiply ⊗ perpendicular ⊥ dotmath ⋅ angleleft ⟨ angleright ⟩ aleph ℵ Ifraktur ℑ
    Rfraktur ℜ weierstrass ℘ lozenge ◊ minute ′ second ″ prime ′ Hungarumlaut ˝ club ♣ diamond ♦
    heart ♥ spade ♠ estimated ℮ numero № Ohm Ω H18533 ▪ H22073 □ H17073 ▪ checkmark ✓ filledbox ■
    openbullet ◦ whitebullet ◦ triagrt ► triaglf ◄ triagup ▲ triagdn ▼ circle ○ circlecopyrt ◯ square □
    check ✓ star ☆ owner ∋ arrownortheast ↗ arrowsoutheast ↘ similarequal ≃ lessmuch ≪
    greatermuch ≫ subset ⊂ superset ⊃ backslashbig \\ bardbl ‖ floorleft ⌊ floorright ⌋
    ceilingleft ⌈ ceilingright ⌉ ell ℓ visiblespace ␣ compwordmark - nbhyphen ‑ figuredash ‒
    quotereversed ‛ onedotenleader . twodotenleader .. zerooldstyle 0 oneoldstyle 1 twooldstyle 2
    threeoldstyle 3 fouroldstyle 4 fiveoldstyle 5 sixoldstyle 6 sevenoldstyle 7 eightoldstyle 8
    nineoldstyle 9 zerosuperior ⁰ foursuperior ⁴ fivesuperior ⁵ sixsuperior ⁶ sevensuperior ⁷
    eightsuperior ⁸ ninesuperior ⁹ zeroinferior ₀ oneinferior ₁ twoinferior ₂ threeinferior ₃
    oneeighth ⅛ threeeighths ⅜ fiveeighths ⅝ seveneighths ⅞ onethird ⅓ twothirds ⅔
";

static BY_NAME: LazyLock<BTreeMap<&str, &str>> = LazyLock::new(|| {
    let words: Vec<&str> = NAMES.split_whitespace().collect();
    let pairs = words.chunks_exact(2);
    pairs
        .filter_map(|pair| Some((*pair.first()?, *pair.get(1)?)))
        .collect()
});

/// What a sign of this name stands for, if that is known.
pub(super) fn text_of(name: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(name.get(..name.len().min(MAX_NAME))?).ok()?;
    let name = match name.split_once('.') {
        Some((before, _)) if !before.is_empty() => before,
        _ => name,
    };
    whole(name).or_else(|| {
        let parts = name.contains('_').then(|| name.split('_'))?;
        parts.map(whole).collect()
    })
}

fn whole(name: &str) -> Option<String> {
    let one = |c: char| Some(c.to_string());
    let mut letters = name.chars();
    if let (Some(letter), None) = (letters.next(), letters.next())
        && letter.is_ascii_alphabetic()
    {
        return one(letter);
    }
    if matches!(name, "space" | "nbspace" | "nonbreakingspace") {
        return one(' ');
    }
    if let Some(text) = BY_NAME.get(name) {
        return Some((*text).to_owned());
    }
    marked(name)
        .or_else(|| greek(name))
        .or_else(|| cyrillic(name))
        .or_else(|| numbered(name))
        .map(String::from)
        .or_else(|| sequence(name))
}

fn marked(name: &str) -> Option<char> {
    let (letter, mark) = name.split_at_checked(1)?;
    let (_, letters) = MARKED.iter().find(|(known, _)| *known == mark)?;
    let mut letters = letters.chars();
    while let (Some(plain), Some(marked)) = (letters.next(), letters.next()) {
        if letter.starts_with(plain) {
            return Some(marked);
        }
    }
    None
}

fn greek(name: &str) -> Option<char> {
    let is_capital = name.starts_with(|c: char| c.is_ascii_uppercase());
    let lower = name.get(..1)?.to_ascii_lowercase() + name.get(1..)?;
    let (_, small, capital) = GREEK.iter().find(|(known, _, _)| *known == lower)?;
    Some(if is_capital { *capital } else { *small })
}

/// The numbers that Adobe gave Russian letters.
fn cyrillic(name: &str) -> Option<char> {
    let number: u32 = name.strip_prefix("afii")?.parse().ok()?;
    let code = match number {
        10_017..=10_022 => 0x410 + number - 10_017,
        10_023 => 0x401,
        10_024..=10_049 => 0x416 + number - 10_024,
        10_065..=10_070 => 0x430 + number - 10_065,
        10_071 => 0x451,
        10_072..=10_097 => 0x436 + number - 10_072,
        _ => return None,
    };
    char::from_u32(code)
}

/// `u1F600`.
fn numbered(name: &str) -> Option<char> {
    let digits = name.strip_prefix('u')?;
    let fits = (4..=6).contains(&digits.len());
    let code = u32::from_str_radix(digits, 16).ok().filter(|_| fits)?;
    char::from_u32(code)
}

/// `uni00660069`: four digits for each.
fn sequence(name: &str) -> Option<String> {
    let digits = name.strip_prefix("uni")?.as_bytes();
    let units = digits.chunks(4).map(|digits| {
        let digits = std::str::from_utf8(digits)
            .ok()
            .filter(|digits| digits.len() == 4)?;
        u16::from_str_radix(digits, 16).ok()
    });
    let units: Vec<u16> = units.collect::<Option<_>>()?;
    String::from_utf16(&units)
        .ok()
        .filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_every_kind_are_known() {
        for (name, text) in [
            ("A", "A"),
            ("space", " "),
            ("eacute", "é"),
            ("Lslash", "Ł"),
            ("fi", "fi"),
            ("f_f_i", "ffi"),
            ("one.oldstyle", "1"),
            ("Delta", "Δ"),
            ("omega", "ω"),
            ("afii10017", "А"),
            ("afii10097", "я"),
            ("uni65E5", "日"),
            ("uni00660069", "fi"),
            ("u1F600", "😀"),
            ("emdash", "—"),
        ] {
            assert_eq!(text_of(name.as_bytes()).as_deref(), Some(text), "{name}");
        }
        for name in [".notdef", "g12", "a17", "uni12", "uniD800", ""] {
            assert_eq!(text_of(name.as_bytes()), None, "{name}");
        }
    }
}
