# What the target `docs` does, run from the repository's root: the book, the API's reference, links.
set(html build/docs/html)
file(REMOVE_RECURSE ${html} build/docs/doctrees)

execute_process(COMMAND ${SPHINX} -q -W --keep-going -c docs/site -d build/docs/doctrees . ${html}
                RESULT_VARIABLE status)
if(status)
  message(FATAL_ERROR "Sphinx found the errors above (status ${status}).")
endif()

# KaTeX, which draws formulas without a network. Debian's files are links.
file(GLOB parts RELATIVE ${KATEX} ${KATEX}/katex.min.js ${KATEX}/katex.min.css ${KATEX}/fonts/*.woff2)
file(MAKE_DIRECTORY ${html}/_static/katex/fonts)
foreach(part ${parts})
  file(COPY_FILE ${KATEX}/${part} ${html}/_static/katex/${part})
endforeach()

# Debian's Furo imports this file from the root of a web server.
file(READ ${html}/_static/styles/furo.css style)
string(REPLACE "url(/javascript/normalize.css/normalize.css)" "url(normalize.css)" style "${style}")
file(WRITE ${html}/_static/styles/furo.css "${style}")
file(COPY ${NORMALIZE_CSS}/normalize.css DESTINATION ${html}/_static/styles)

execute_process(COMMAND ${DOXYGEN} Doxyfile RESULT_VARIABLE status)
if(status)
  message(FATAL_ERROR "Doxygen found the errors above (status ${status}).")
endif()
file(RENAME build/api ${html}/api)

execute_process(COMMAND ${PYTHON3} docs/check_links.py ${html} RESULT_VARIABLE status)
if(status)
  message(FATAL_ERROR "There are broken links; see above.")
endif()
