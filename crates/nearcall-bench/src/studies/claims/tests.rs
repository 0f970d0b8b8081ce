//! Each claim is judged by figures that were made up, and by those that the papers print.

use super::*;
