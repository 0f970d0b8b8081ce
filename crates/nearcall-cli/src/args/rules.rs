//! How strictly a run keeps to the rules of measuring, and what it leaves out of them on purpose.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use nearcall_bench::touch::{Touch, UnknownTouch};

use super::value::Sizes;
use super::{HOW, WHAT};

/// Rules that can be chosen.
#[derive(Debug, Args)]
pub(crate) struct RulesArgs {
    /// How much of the payload is written and read: full, header, none
    #[arg(
        long,
        value_name = "PART",
        default_value = "full",
        hide_default_value = true,
        hide_possible_values = true,
        value_parser = touch(),
        help_heading = WHAT
    )]
    pub(crate) touch: Touch,

    /// Room in each direction, such as 64KiB; a cell that gets another fails
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, help_heading = WHAT)]
    pub(crate) buffer: Option<Sizes>,

    /// Measure also where the room differs from that of --buffer
    #[arg(long, requires = "buffer", help_heading = WHAT)]
    pub(crate) allow_different_sizes: bool,

    #[command(flatten)]
    pub(crate) quiet: QuietArgs,
}

/// What keeps the machine quiet.
#[derive(Debug, Args)]
pub(crate) struct QuietArgs {
    /// Keep CPUs out of sleep states, where /dev/cpu_dma_latency may be used
    #[arg(long, help_heading = HOW)]
    pub(crate) awake: bool,
}

/// A parser that lists the words when it refuses.
fn touch() -> impl TypedValueParser<Value = Touch> {
    let names = PossibleValuesParser::new(Touch::ALL.map(Touch::name));
    names.try_map(|word| -> Result<Touch, UnknownTouch> { word.parse() })
}
