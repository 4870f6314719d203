#pragma once

#include "schema/hardware.h"

namespace trireme {

// The machines of the published tables, from the files of clusters/ that are built into the
// program.

// DGX A100 with 80 GB, one 200 Gbit/s adapter for each device.
Hardware dgx_a100_80g();

// The same node with the devices of 40 GB and their slower memory.
Hardware dgx_a100_40g();

// DGX H100, one 400 Gbit/s adapter for each device.
Hardware dgx_h100();

// The same node has only two adapters here, which send 800 Gbit/s for its eight devices.
Hardware dgx_h100_of_800_gbit();

// H100 with 96 GB of HBM2e and a limit of 500 W: the "Grand Teton" nodes of Meta.
Hardware h100_hbm2e();

// The devices with 80 GB and one 200 Gbit/s adapter for every two of them.
Hardware a100_80g_of_half_the_adapters();

// The devices with 80 GB and four adapters of 100 Gbit/s for every eight of them: Jean Zay.
Hardware a100_80g_of_100_gbit();

}  // namespace trireme
