// Preprocessed by the build script: the last line becomes Boost's version.
#include <boost/version.hpp>
BOOST_LIB_VERSION
