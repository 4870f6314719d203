#pragma once

#include <string>
#include <vector>

#include "schema/node_map.h"

namespace trireme {

// An op of a drawn stage, or several ops with the same roles behind each other.
struct DrawnOp {
  std::string names;  // such as "attn.wq attn"
  std::string roles;  // what the ranks share out, such as "data 2, tensor 8"
};
// Units of one kind: an embedding, equal layers or a head.
struct DrawnUnit {
  std::string name;      // such as "32 layers"
  std::string settings;  // such as "ZeRO 3"
  std::vector<DrawnOp> ops;
};
// A stage, or neighbouring stages that differ only in their ranks and layers.
struct DrawnStage {
  std::string units;    // such as "embedding, layers 0 to 15"
  std::string figures;  // its mesh, time and memory
  int first_rank = 0;
  int num_ranks = 0;
  double seconds = 0.0;       // of a micro-batch
  double memory_share = 0.0;  // of the memory of a rank
  std::vector<DrawnUnit> kinds;
  bool is_like_before = false;  // its kinds are those of the stage before and are not drawn again
};
struct StagesPicture {
  std::string title;
  std::vector<std::string> lines;  // below the title
  int num_ranks = 1;
  NodeMap nodes = 1;
  std::vector<DrawnStage> stages;
};

// A picture that needs no other file: the ranks of all nodes with the stage that each one belongs
// to, then for every stage its time, its memory and the roles of its ops. Readable on light and
// dark backgrounds.
std::string draw_stages(const StagesPicture& picture);

}  // namespace trireme
