//! `nearcall reproduce`: plans and runs studies.

use clap::Args;
use nearcall_bench::footprint::ServiceFiles;
use nearcall_studies::Study;
use nearcall_studies::reproduce::StudiesPlan;

use super::bench::{self, Cpus};
use super::{End, Usage, command_line};
use crate::args::RunArgs;

/// Repeat published studies of IPC and check their claims
///
/// Each study by its own protocol: mechanisms with their synchronisation, sizes, counts,
/// statistic, placement and load. Prints the paper's figures beside this machine's by the
/// paper's statistic and by ours, and a verdict on each claim: CONFIRMED, REFUTED, INCONCLUSIVE
/// or SKIPPED, with the evidence. All five take at most a quarter of an hour.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct ReproduceArgs {
    /// A study: motorola, enea, wisconsin-latency, wisconsin-evaluation,
    /// short-comparison; or all
    #[arg(value_name = "STUDY", value_parser = studies)]
    pub(crate) study: Studies,

    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// One study or all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Studies(pub(crate) Vec<Study>);

fn studies(name: &str) -> Result<Studies, String> {
    if name == "all" {
        return Ok(Studies(Study::ALL.to_vec()));
    }
    match name.parse() {
        Ok(study) => Ok(Studies(vec![study])),
        Err(error) => Err(format!("{error}; or all")),
    }
}

pub(super) fn run(args: &ReproduceArgs) -> anyhow::Result<End> {
    let plan = StudiesPlan {
        studies: args.study.0.clone(),
        services: Some(bench::program()),
        service_files: Some(ServiceFiles::find()),
        options: bench::run_options(&args.run, None, &command_line(), &Cpus::read())
            .map_err(Usage)?,
    };
    bench::measure_and_deliver(&args.run, |interrupt| bench::studies(&plan, interrupt))
}

const EXAMPLES: &str = "\
Examples:
  nearcall reproduce all                         all five: verdicts on 70 claims
  nearcall reproduce wisconsin-latency           one of them
  nearcall reproduce enea --quick                a first look
  nearcall reproduce all --json | jq '.studies[].verdicts[] | .verdict'";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_study_is_named_by_name_or_number_and_an_unknown_one_lists_all() {
        assert_eq!(studies("all").unwrap().0.len(), 5);
        assert_eq!(studies("003"), Ok(Studies(vec![Study::WisconsinEvaluation])));
        let error = studies("enae").unwrap_err();
        for study in Study::ALL {
            assert!(error.contains(study.name()), "{error}");
        }
    }
}
