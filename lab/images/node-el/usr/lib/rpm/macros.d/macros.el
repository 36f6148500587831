%_dbpath /var/lib/rpm
