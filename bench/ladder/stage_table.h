// The ladder's rows as a table and as JSON.
#ifndef CUFLASH_BENCH_LADDER_STAGE_TABLE_H_
#define CUFLASH_BENCH_LADDER_STAGE_TABLE_H_

#include <string>
#include <vector>

#include "measure.h"
#include "provenance.h"

namespace cuflash::bench {

// The rows of one pass: bytes on the CPU simulator, times on a GPU.
std::string table_text(const std::vector<Row>& rows, const Plan& plan);

// The limiter of each timed stage; empty if no row has a time.
std::string limits_text(const std::vector<Row>& rows);

// The failures of all rows, stage by stage; empty if there are none.
std::string failures_text(const std::vector<Row>& rows);

// Writes {"provenance": ..., "rows": [...]}; throws if the file cannot be written.
void write_json(const std::string& path, const Provenance& provenance, const std::vector<Row>& rows,
                const Plan& plan);

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_LADDER_STAGE_TABLE_H_
