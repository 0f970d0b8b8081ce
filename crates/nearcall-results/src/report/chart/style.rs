//! The colours and strokes of all charts: CSS with variables, for light, dark and paper.
//!
//! Series colours are those of Okabe and Ito, darkened on white until each has a contrast of 3 to
//! 1; marks and dashes differ too, so that grey print tells them apart. A page may set
//! `data-theme="light"` or `"dark"` on its root element, which wins over what the system says.

macro_rules! light {
    () => {
        "--ink:#1b1f24;--muted:#5c6670;--grid:#dfe3e8;--paper:#ffffff;--band:#aeb6bf;\
         --s1:#0072b2;--s2:#c8500a;--s3:#00805c;--s4:#a9487f;--s5:#a87400;--s6:#3488b8;\
         --s7:#4d4d4d;--s8:#746a00;"
    };
}

macro_rules! dark {
    () => {
        "--ink:#e6e9ec;--muted:#9aa5b1;--grid:#333b44;--paper:#14181d;--band:#77828e;\
         --s1:#5cb3ee;--s2:#ff8a4a;--s3:#35c99b;--s4:#e58fc0;--s5:#eab23c;--s6:#9ad2f2;\
         --s7:#c4c9ce;--s8:#d9cf4e;"
    };
}

macro_rules! rules {
    () => {
        ".chart{display:block;width:100%;height:auto;color:var(--ink);background:none}\
         .chart text{font-family:system-ui,-apple-system,\"Segoe UI\",Roboto,\"Liberation Sans\",\
         Arial,sans-serif;font-size:12px;fill:var(--ink)}\
         .chart .muted{fill:var(--muted)}.chart .strong{font-weight:600}\
         .chart .end{text-anchor:end}.chart .middle{text-anchor:middle}\
         .chart .halo{paint-order:stroke;stroke:var(--paper);stroke-width:3px;\
         stroke-linejoin:round}\
         .chart .grid{stroke:var(--grid);stroke-width:1;fill:none}\
         .chart .axis{stroke:var(--muted);stroke-width:1;fill:none}\
         .chart .lead{stroke:var(--muted);stroke-width:.7;fill:none}\
         .chart .s1{--c:var(--s1)}.chart .s2{--c:var(--s2)}.chart .s3{--c:var(--s3)}\
         .chart .s4{--c:var(--s4)}.chart .s5{--c:var(--s5)}.chart .s6{--c:var(--s6)}\
         .chart .s7{--c:var(--s7)}.chart .s8{--c:var(--s8)}\
         .chart .other{--c:var(--band)}.chart .floor{--c:var(--muted)}\
         .chart .line{stroke:var(--c);stroke-width:2;fill:none;stroke-linejoin:round}\
         .chart .other .line{stroke-width:1}\
         .chart .floor .line{stroke-width:1.2;stroke-dasharray:2 3}\
         .chart .s2 .line{stroke-dasharray:7 3}.chart .s3 .line{stroke-dasharray:2 2}\
         .chart .s4 .line{stroke-dasharray:9 3 2 3}.chart .s5 .line{stroke-dasharray:4 2}\
         .chart .s6 .line{stroke-dasharray:12 3}.chart .s7 .line{stroke-dasharray:1 3}\
         .chart .s8 .line{stroke-dasharray:6 2 1 2 1 2}\
         .chart .band{fill:var(--c);fill-opacity:.13;stroke:none}\
         .chart .bar{stroke:var(--c);stroke-width:2;fill:none;stroke-opacity:.55}\
         .chart path:not([class]),.chart .hollow{fill:var(--c);stroke:var(--c);stroke-width:1.4}\
         .chart .other path:not([class]){stroke-width:5;stroke-linecap:round}\
         .chart .hollow{fill:var(--paper)}"
    };
}

/// Everything that the charts of a page need. On a narrow screen a chart in a `.plot` stays wide
/// enough to be read, and the page lets it scroll.
pub const STYLE: &str = concat!(
    ":root{",
    light!(),
    // On paper this would win over the rule for paper: `:not` counts.
    "}@media screen and (prefers-color-scheme:dark){:root:not([data-theme=light]){",
    dark!(),
    "}}:root[data-theme=dark]{",
    dark!(),
    "}@media print{:root,:root[data-theme]{",
    light!(),
    "}}",
    rules!(),
    "@media screen and (max-width:540px){.plot .chart{width:36rem}}"
);

#[cfg(test)]
mod tests {
    use super::STYLE;

    #[test]
    fn paper_is_never_dark() {
        assert_eq!(STYLE.matches("prefers-color-scheme").count(), 1);
        assert!(STYLE.contains("@media screen and (prefers-color-scheme:dark){"));
    }
}
