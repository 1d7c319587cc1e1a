// The compilers that built the library, as text in its binary, where bench/provenance.py finds it.
namespace {

[[gnu::used]] const char kCompilers[] = "cuflash was compiled with " CUFLASH_COMPILERS;

}  // namespace
