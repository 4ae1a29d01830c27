check title.sh 'hello-world' 'Hello World'
check title.sh 'one' 'One'
