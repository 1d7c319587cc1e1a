// The figures as a table and as JSON. Host code that needs no GPU.
#ifndef CUFLASH_BENCH_CEILINGS_REPORT_H_
#define CUFLASH_BENCH_CEILINGS_REPORT_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "ceilings/ceiling.h"
#include "provenance.h"

namespace cuflash::bench {

std::string table_text(const std::vector<Figure>& figures);

nlohmann::ordered_json report(const Provenance& provenance, const Chip& chip,
                              const std::vector<Figure>& figures);

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_CEILINGS_REPORT_H_
