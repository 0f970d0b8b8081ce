//! In which order launches are made: at random, in rounds.
//!
//! Order matters because a machine changes while it is measured: if all launches of one cell came
//! before all of another, the machine's drift would look like a difference between them. Nothing
//! is started here.

/// One launch of one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Which cell of the plan, from 0.
    pub cell: usize,
    /// Which of its launches, from 0.
    pub launch: u32,
}

/// LaunchRequest `launches` launches of each of `cells` cells, the same for the same seed.
///
/// Goes round by round: every round launches each cell once, in an order of its own. So a run that
/// is cut short has nearly as many launches of each cell, and drift falls on all alike.
#[must_use]
pub fn schedule(cells: usize, launches: u32, seed: u64) -> Vec<Launch> {
    schedule_beside(&(0..cells).collect::<Vec<usize>>(), launches, seed)
}

/// As [`schedule`], and in each round the cells of one group, whose numbers these are, follow each
/// other directly: what is compared within a round is measured as near to each other as can be.
#[must_use]
pub fn schedule_beside(groups: &[usize], launches: u32, seed: u64) -> Vec<Launch> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut round: Vec<usize> = (0..groups.len()).collect();
    let mut order = Vec::new();
    for launch in 0..launches {
        let last = round.last().copied();
        rng.shuffle(&mut round);
        let shuffled = round.clone();
        // A group stands where its first cell does.
        let place = |cell: usize| shuffled.iter().position(|&one| groups[one] == groups[cell]);
        round.sort_by_key(|&cell| place(cell));
        // A cell twice in a row would find the caches as it left them.
        if launch > 0 && round.first().copied() == last {
            round.reverse();
        }
        order.extend(round.iter().map(|&cell| Launch { cell, launch }));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_launches_each_cell_once() {
        for seed in 0..50 {
            let order = schedule(7, 5, seed);
            assert_eq!(order.len(), 35);
            for (launch, round) in (0..).zip(order.chunks(7)) {
                let mut cells: Vec<usize> = round.iter().map(|one| one.cell).collect();
                assert!(round.iter().all(|one| one.launch == launch));
                cells.sort_unstable();
                assert_eq!(cells, [0, 1, 2, 3, 4, 5, 6], "seed {seed}");
            }
            let twice = order.windows(2).any(|pair| pair[0].cell == pair[1].cell);
            assert!(!twice, "seed {seed}: a cell twice in a row");
        }
    }

    #[test]
    fn the_cells_of_a_group_follow_each_other_in_every_round() {
        let groups = [0, 1, 0, 3, 1, 0];
        for seed in 0..50 {
            for round in schedule_beside(&groups, 6, seed).chunks(6) {
                let mut found: Vec<usize> = round.iter().map(|one| groups[one.cell]).collect();
                found.dedup();
                assert_eq!(found.len(), 3, "seed {seed}: {round:?}");
            }
        }
        let first = |seed| schedule_beside(&groups, 1, seed)[0].cell;
        assert!((0..50).any(|seed| first(seed) != first(0)));
    }

    #[test]
    fn the_order_is_random_and_repeatable() {
        assert_eq!(schedule(9, 3, 1), schedule(9, 3, 1));
        assert_ne!(schedule(9, 3, 1), schedule(9, 3, 2));
        let order = schedule(9, 3, 1);
        assert_ne!(
            order[..9].iter().map(|one| one.cell).collect::<Vec<_>>(),
            order[9..18].iter().map(|one| one.cell).collect::<Vec<_>>()
        );
        assert_eq!(schedule(0, 5, 1), []);
        assert_eq!(schedule(1, 2, 1).len(), 2);
    }
}
