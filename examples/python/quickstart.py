import sys

import holdfast

with holdfast.connect(sys.argv[1] if len(sys.argv) > 1 else "redis://localhost") as client:
    lock = client.lock("stock")
    try:
        with lock.hold(timeout=5) as hold:
            print("the lock is ours; fence", hold.fence)
    except holdfast.LockTimeout:
        print("others kept the lock for 5 seconds")
