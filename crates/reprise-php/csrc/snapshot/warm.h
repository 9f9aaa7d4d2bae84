/* What libraries make at their first use, made before the snapshot. On PHP's stack. */
#ifndef REPRISE_WARM_H
#define REPRISE_WARM_H

void reprise_warm_libraries(void);

#endif
