//! Where the time of one empty call goes.
