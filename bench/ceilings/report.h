// The figures as a table and as JSON. Host code that needs no GPU.
#ifndef CUFLASH_BENCH_CEILINGS_REPORT_H_
#define CUFLASH_BENCH_CEILINGS_REPORT_H_

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ceilings/ceiling.h"
#include "provenance.h"

namespace cuflash::bench {

std::string table_text(const std::vector<Figure>& figures);
std::string list_text(const std::vector<Ceiling>& ceilings);

nlohmann::ordered_json report(const Provenance& provenance, const Chip& chip,
                              const std::vector<Figure>& figures);

// The ceiling `key` of a peers.json in a folder of `results` that was measured on a GPU with this
// name, if there is one.
std::optional<Recorded> recorded(const std::string& results, const std::string& device,
                                 const std::string& key);

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_CEILINGS_REPORT_H_
