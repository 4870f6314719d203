#include "reproduce/published_clusters.h"

#include "config/cluster_file.h"
#include "trireme_cluster_text.h"

namespace trireme {

Hardware dgx_a100_80g() {
  return parse_hardware(embedded::kDgxA10080gToml, "clusters/dgx-a100-80g.toml").value();
}

Hardware dgx_a100_40g() {
  Hardware hardware = dgx_a100_80g();
  hardware.name = "DGX A100 40GB";
  hardware.memory_bytes_per_s = 1.555e12;  // data sheet of NVIDIA
  hardware.memory_bytes = int64_t{40} << 30;
  return hardware;
}

Hardware dgx_h100() {
  return parse_hardware(embedded::kDgxH100Toml, "clusters/dgx-h100.toml").value();
}

Hardware a100_80g_of_half_the_adapters() {
  Hardware hardware = dgx_a100_80g();
  hardware.name = "A100 80GB, four adapters for eight devices";
  hardware.tiers.back().link.bytes_per_s /= 2.0;
  return hardware;
}

}  // namespace trireme
