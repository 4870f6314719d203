#include "spec/placement.h"

namespace trireme {

std::string to_string(Placement placement) {
  switch (placement.kind) {
    case Placement::Kind::Replicate:
      return "replicate";
    case Placement::Kind::Shard:
      return "shard(" + std::to_string(placement.dim) + ")";
    case Placement::Kind::Partial:
      return "partial";
    case Placement::Kind::Invariant:
      return "invariant";
  }
  return "?";
}

}  // namespace trireme
