#include "base/philox.h"

#include "base/hash.h"

namespace trireme {

RngKey rng_key(uint64_t seed, std::string_view site) { return {hash64(site, seed)}; }

}  // namespace trireme
