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

Hardware dgx_h100_of_800_gbit() {
  Hardware hardware = dgx_h100();
  hardware.name = "H100, two adapters of 400 Gbit/s for eight devices";
  hardware.tiers.back().adapters = 2;
  return hardware;
}

Hardware h100_hbm2e() {
  Hardware hardware = dgx_h100();
  hardware.name = "H100 96GB HBM2e, 500 W";
  hardware.memory_bytes_per_s = 2.4e12;
  hardware.memory_bytes = int64_t{96} << 30;
  // Large products that PyTorch measured on this variant of the H100 in 2024 reached 0.6 of 989
  // TFLOP/s (pytorch/ao, torchao/testing/float8/roofline_utils.py).
  hardware.sustained_flops = 0.6 * 989e12;
  return hardware;
}

Hardware a100_80g_of_half_the_adapters() {
  Hardware hardware = dgx_a100_80g();
  hardware.name = "A100 80GB, four adapters for eight devices";
  hardware.tiers.back().link.bytes_per_s /= 2.0;
  return hardware;
}

Hardware a100_80g_of_100_gbit() {
  Hardware hardware = dgx_a100_80g();
  hardware.name = "A100 80GB, four adapters of 100 Gbit/s for eight devices";
  LinkTier& network = hardware.tiers.back();
  network.adapters = 4;
  network.link.bytes_per_s = 10e9;  // 0.8 of an adapter, as of the others
  return hardware;
}

}  // namespace trireme
