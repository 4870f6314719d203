#pragma once

#include <string>
#include <vector>

#include "schema/hardware.h"
#include "schema/run_config.h"

namespace trireme {

// A model for which Zheng et al. 2022 ("Alpa", OSDI) search a plan, and its devices. The paper
// prints no numbers of its throughput, so only our own plans can be compared.
struct AlpaRun {
  std::string name;  // "GPT 39B"
  RunConfig config;  // its degrees say only how many ranks there are
  int num_ranks = 1;
};

// Returns the models of the paper (its tables and the authors' suite_*.py): GPT and MoE with 1,024
// sequences of 1,024 tokens a step, and Wide-ResNets to 13B with 1,536 images of 224 x 224 pixels
// in fp32. Experts of our models have SwiGLU, so their width is 2/3 of that in the paper: then they
// have as many parameters.
std::vector<AlpaRun> alpa_runs();

// Returns the cluster of the paper: nodes of eight V100 with 16 GB (AWS p3.16xlarge).
Hardware v100_p3();

}  // namespace trireme
